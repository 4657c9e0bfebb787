# Completes kubectl-appdeploy in PowerShell. To have it in every shell:
#   kubectl appdeploy completion powershell >> $PROFILE
# For `kubectl appdeploy` see: kubectl appdeploy completion --help

Register-ArgumentCompleter -Native -CommandName 'kubectl-appdeploy' -ScriptBlock {
    param($word, $ast, $cursor)
    $words = @($ast.CommandElements | Where-Object { $_.Extent.EndOffset -lt $cursor } | ForEach-Object { "$_" })
    $current = "$word"
    # Before 7.3, PowerShell drops an empty argument unless it is quoted twice.
    if ($current -eq '' -and $PSVersionTable.PSVersion -lt [version]'7.3') { $current = '""' }
    $arguments = @('__complete') + @($words | Select-Object -Skip 1) + @($current)
    $lines = @(& $words[0] @arguments 2>$null)
    # A value behind = comes alone, and PowerShell wants the whole word.
    $before = if ($word -match '^(-[^=]*=)') { $Matches[1] } else { '' }
    $lines | Where-Object { $_ -notmatch '^:\d+$' } | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new("$before$value", $value, 'ParameterValue', $about)
    }
}
