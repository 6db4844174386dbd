package main

const (
	sysMemfdCreate = 279
	sysGetrandom   = 278
)
