package tier

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel makes a package run at least n tests that call t.Parallel at the same time, since they mostly wait, unless -parallel is set.
// TestMain calls it.
func Parallel(n int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if own := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(own) {
		_ = flag.Set("test.parallel", strconv.Itoa(max(n, own)))
	}
}
