// Package part fails.
package part

// Fail panics.
func Fail(err error) {
	panic(err)
}

// Each calls f.
func Each(s []int, f func([]int)) { f(s) }
