package tier

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel has a package run at least n tests at once that call t.Parallel, since they mostly wait, unless -parallel says otherwise. It is
// called by TestMain.
func Parallel(n int) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if own := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(own) {
		_ = flag.Set("test.parallel", strconv.Itoa(max(n, own)))
	}
}
