//go:build linux

#include "textflag.h"

// func cloneOnto(call, arg0, arg1, arg2, entry uintptr, m *machine) int
//
// The kernel keeps all registers but AX, CX and R11, and gives the child SP. The child has neither the caller's stack nor
// a thread of its own for the thread register to point at, so it must not get there by a wrapper, which would load g: it
// calls entry as Go calls Go (ABIInternal: first argument in AX with room on our stack to spill it, X15 zero, g in R14,
// here none).
TEXT ·cloneOnto(SB), NOSPLIT, $0-56
	MOVQ  call+0(FP), AX
	MOVQ  arg0+8(FP), DI
	MOVQ  arg1+16(FP), SI
	MOVQ  arg2+24(FP), DX
	MOVQ  entry+32(FP), R12
	MOVQ  m+40(FP), R13
	XORL  R10, R10
	XORL  R8, R8
	SYSCALL
	TESTQ AX, AX
	JZ    child
	MOVQ  AX, ret+48(FP)
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

// Called as a func(call, arg0, arg1, arg2, entry uintptr, m *machine) int, by Go's internal convention: arguments in AX,
// BX, CX, DI, SI and R8, the result in AX. Neither changes R14 or X15.
TEXT beside<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ  SI, R12
	MOVQ  R8, R13
	MOVQ  DI, DX
	MOVQ  BX, DI
	MOVQ  CX, SI
	XORL  R10, R10
	XORL  R8, R8
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
