# Completes kubectl-appdeploy in fish. To have it in every shell:
#   kubectl appdeploy completion fish >> ~/.config/fish/config.fish
# For `kubectl appdeploy` see: kubectl appdeploy completion --help

function __kubectl_appdeploy_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] __complete $words[2..-1] "$current" 2>/dev/null)
    # A value behind = comes alone, and fish wants the whole word.
    set -l before (string match -r -- '^-[^=]*=' "$current")
    if test "$lines[-1]" = ":0"
        __fish_complete_path (string replace -r -- '^-[^=]*=' '' "$current")
    else if test (count $lines) -gt 1
        for line in $lines[1..-2]
            echo "$before$line"
        end
    end
end

complete -c kubectl-appdeploy -f -a '(__kubectl_appdeploy_complete)'
