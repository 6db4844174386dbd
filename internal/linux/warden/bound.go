//go:build linux

package warden

import (
	"os"
	"time"
)

// Constants for a group whose programs have a limit in bytes.
const (
	leastSlack = 8 << 20 // the smallest tolerance of a limit
	slackPart  = 20      // the tolerance is one part in this many

	// pace exceeds the rate at which a sandbox's programs can allocate or write, in bytes per second: several processors that
	// clear huge pages.
	pace = 16 << 30
	// shortest and longest limit the time between two looks. restful replaces shortest while a group's charge does not grow.
	shortest = 500 * time.Microsecond
	restful  = time.Millisecond
	longest  = 100 * time.Millisecond
	// share is the least time between two looks at any of the groups. With several groups, the time between two looks is at least
	// part times the duration of a look. So the warden takes a small part of its processors, whatever the number of groups and
	// the duration of a look.
	share = 100 * time.Microsecond
	part  = 8
	// young is how many calm looks a group has before it gets an event, which costs more than these looks: most groups end before.
	young = 5
	// dearest limits the counted duration of a look: its thread may have been preempted.
	dearest = time.Millisecond
)

// slack is how far a group's programs may ever exceed their limit.
func slack(bytes int64) int64 { return max(leastSlack, bytes/slackPart) }

// Limit is the kernel's limit of a group whose programs are limited to bytes, while it has no files in memory. Three quarters of
// the slack are the kernel's margin, which writers of files fill while the warden wakes up; the rest is for the time between two
// looks.
func Limit(bytes int64) int64 { return bytes + slack(bytes)/4*3 }

// Threshold is the charge from which on the warden looks at a group. The difference to the group's limit gives the warden time to
// wake up.
func Threshold(bytes int64) int64 { return bytes - slack(bytes)/2 }

// next returns the time until the next look at one of n groups whose programs hold that much. For full of them, a look takes that long.
func next(bytes, held int64, grows bool, n, full int, look time.Duration) time.Duration {
	left := float64(bytes + slack(bytes)/2 - held)
	d := time.Duration(left / pace * float64(time.Second))
	least := restful
	if grows {
		least = shortest
	}
	return max(min(d, longest), least, time.Duration(n)*share, time.Duration(full-1)*part*look)
}

// pages rounds up to whole pages, as the kernel rounds down.
func pages(bytes int64) int64 {
	page := int64(os.Getpagesize())
	return (bytes + page - 1) / page * page
}
