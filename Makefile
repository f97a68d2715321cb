.DEFAULT_GOAL := help
.PHONY: help run test lint format bench

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  \1\t\2/'

run: ## evolve with a budget of 1000 on the built-in benchmark
	uv run python -m evolve run --budget 1000

test: ## run the tests on two cores, as CI does
	uv run pytest -n 2 --dist loadfile

lint: ## check style, format and types; what CI checks
	uv run ruff check .
	uv run ruff format --check .
	uv run mypy

format: ## repair style and format where that can be done by itself
	uv run ruff check --fix .
	uv run ruff format .

bench: ## measure the speed budgets
	uv run python -m benchmarks
