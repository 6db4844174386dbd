//go:build linux

package warden

import (
	"os"
	"time"
)

// The figures of a group whose programs may have bytes of memory.
const (
	leastSlack = 8 << 20 // no limit is more exact than that
	slackPart  = 20      // nor than one part in so many

	// pace is more than the programs of a sandbox can take or write in a second: several processors that clear huge pages.
	pace = 16 << 30
	// shortest and longest are the bounds of the time between two looks, of which restful is the shortest while a group is
	// charged no more than at the last.
	shortest = 500 * time.Microsecond
	restful  = time.Millisecond
	longest  = 100 * time.Millisecond
	// share is the least time between two looks at any of the groups, and part how many times as long as a look that is at least
	// where there are several: the warden takes a small part of its processors however many there are, and whatever a look takes.
	share = 100 * time.Microsecond
	part  = 8
	// dearest is what counts of a look at most: its thread may have been away meanwhile.
	dearest = time.Millisecond
)

// slack is how far above its bytes a group's programs may ever be.
func slack(bytes int64) int64 { return max(leastSlack, bytes/slackPart) }

// Limit is the kernel's limit of a group whose programs may have bytes, while files hold nothing. Three quarters of the
// slack are the kernel's margin, which writers of files fill while the warden wakes up; the rest is for what happens
// between two looks.
func Limit(bytes int64) int64 { return bytes + slack(bytes)/4*3 }

// Threshold is the charge from which on the warden looks at a group. What the group may be charged above it, before its limit,
// is the time that the warden has to wake up.
func Threshold(bytes int64) int64 { return bytes - slack(bytes)/2 }

// next is the time to the next look at one of n groups whose programs hold that much, where a look takes that long.
func next(bytes, held int64, grows bool, n int, look time.Duration) time.Duration {
	left := float64(bytes + slack(bytes)/2 - held)
	d := time.Duration(left / pace * float64(time.Second))
	least := restful
	if grows {
		least = shortest
	}
	return max(min(d, longest), least, time.Duration(n)*share, time.Duration(n-1)*part*look)
}

// pages rounds up to whole pages, as the kernel rounds down.
func pages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return (bytes + page - 1) / page * page
}
