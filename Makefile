# The front door. `make help` lists what it opens.
.DEFAULT_GOAL := help
