//go:build linux

#include "textflag.h"

// func cloneOnto(args *cloneArgs, size, entry uintptr, m *machine) int
//
// The kernel keeps all registers but AX, CX and R11, and gives the child SP. The child has neither the caller's stack nor
// what the thread register points at, so it must not get there by a wrapper, which would load g: it calls entry as
// Go calls Go (ABIInternal: first argument in AX with room on our stack to spill it, X15 zero, g in R14, here none).
TEXT ·cloneOnto(SB), NOSPLIT, $0-40
	MOVQ  args+0(FP), DI
	MOVQ  size+8(FP), SI
	MOVQ  entry+16(FP), R12
	MOVQ  m+24(FP), R13
	MOVQ  $435, AX           // SYS_CLONE3
	SYSCALL
	TESTQ AX, AX
	JZ    child
	MOVQ  AX, ret+32(FP)
	RET

child:
	SUBQ  $64, SP
	XORL  BP, BP
	XORL  R14, R14
	XORPS X15, X15
	MOVQ  R13, AX
	CALL  R12
	INT   $3

// func besideEntry() uintptr
TEXT ·besideEntry(SB), NOSPLIT, $0-8
	LEAQ  beside<>(SB), AX
	MOVQ  AX, ret+0(FP)
	RET

// Called as a func(args *cloneArgs, size, entry uintptr, m *machine) int, by Go's internal convention: arguments in AX, BX,
// CX and DI, the result in AX. Neither changes R14 or X15.
TEXT beside<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ  CX, R12
	MOVQ  DI, R13
	MOVQ  AX, DI
	MOVQ  BX, SI
	MOVQ  $435, AX           // SYS_CLONE3
	SYSCALL
	TESTQ AX, AX
	JZ    child
	RET

child:
	SUBQ  $64, SP
	XORL  BP, BP
	XORL  R14, R14
	XORPS X15, X15
	MOVQ  R13, AX
	CALL  R12
	INT   $3
