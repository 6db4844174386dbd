// Package broken does not build.
package broken

func f() int {
	x := 1
	return "text" + missing
}
