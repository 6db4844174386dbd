package main

const (
	sysMemfdCreate = 319
	sysGetrandom   = 318
)
