package outcome

import "strconv"

// signalName returns the name of a Linux signal, on every platform.
func signalName(n int) string {
	names := [...]string{
		1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
		11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT", 17: "CHLD", 18: "CONT", 19: "STOP",
		20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU", 25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH",
		29: "IO", 30: "PWR", 31: "SYS",
	}
	switch {
	case n > 0 && n < len(names):
		return "SIG" + names[n]
	case n >= 34 && n <= 64:
		return "SIGRTMIN+" + strconv.Itoa(n-34)
	}
	return "signal " + strconv.Itoa(n)
}
