#include "textflag.h"

// func int80(nr uint32) int32
// The i386 entry of the kernel, with no arguments.
TEXT ·int80(SB), NOSPLIT, $0-12
	MOVL nr+0(FP), AX
	MOVL $0, BX
	MOVL $0, CX
	MOVL $0, DX
	INT  $0x80
	MOVL AX, ret+8(FP)
	RET
