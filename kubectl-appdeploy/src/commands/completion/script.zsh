#compdef kubectl-appdeploy
# Completes kubectl-appdeploy in zsh. To have it in every shell, after compinit:
#   echo 'source <(kubectl appdeploy completion zsh)' >> ~/.zshrc
# For `kubectl appdeploy` see: kubectl appdeploy completion --help

_kubectl-appdeploy() {
    local -a lines candidates
    local line directive
    lines=("${(@f)$("${words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    directive=${lines[-1]#:}
    # A value behind = comes alone.
    [[ $PREFIX == -*=* ]] && compset -P '*='
    for line in "${(@)lines[1,-2]}"; do
        if [[ $line == *$'\t'* ]]; then
            candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        else
            candidates+=("${line//:/\\:}")
        fi
    done
    if [[ $directive == 0 ]]; then
        _files
    elif [[ $directive == 6 ]]; then
        _describe 'kubectl-appdeploy' candidates -S ''
    else
        _describe 'kubectl-appdeploy' candidates
    fi
}

compdef _kubectl-appdeploy kubectl-appdeploy
