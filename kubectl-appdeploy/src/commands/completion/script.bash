# Completes kubectl-appdeploy in bash. To have it in every shell:
#   echo 'source <(kubectl appdeploy completion bash)' >> ~/.bashrc
# For `kubectl appdeploy` see: kubectl appdeploy completion --help

_kubectl_appdeploy() {
    local typed=${COMP_LINE:0:COMP_POINT} line directive=4
    local -a words
    # bash takes words apart at = and :, which belong to a word here.
    read -ra words <<<"$typed"
    [[ $typed == *[[:space:]] ]] && words+=("")
    local current=${words[${#words[@]} - 1]}
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :*) directive=${line#:} ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    # What bash holds for the word begins behind the last of its separators; a value behind = comes alone already.
    current=${current#-*=}
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local before=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$before"}")
    fi
    if [[ $directive == 6 ]]; then
        type compopt &>/dev/null && compopt -o nospace
    fi
    if [[ $directive == 0 ]]; then
        type compopt &>/dev/null && compopt -o default
    fi
}

complete -F _kubectl_appdeploy kubectl-appdeploy
