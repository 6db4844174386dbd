//go:build !linux

package lsp

func settle() {}
