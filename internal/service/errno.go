package service

// Numbers that agents tell: Linux's, whatever this process runs on.
const (
	linuxENOENT = 2
	linuxEAGAIN = 11
	linuxENOSPC = 28
	linuxSIGHUP = 1
)
