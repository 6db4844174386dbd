// Command programs builds the programs that black-box tests run into a folder, for BELLJAR_TEST_PROGRAMS.
package main

import (
	"fmt"
	"os"

	"github.com/belljar/belljar/test/build"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: programs DIR")
		os.Exit(2)
	}
	if _, err := build.Into(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
