module github.com/flyteorg/stow

go 1.26.0
