@rem kubectl runs this to complete `kubectl appdeploy`: it finds it in PATH by its name.
@kubectl-appdeploy __complete %* 2>NUL
