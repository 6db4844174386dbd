// Command trace fails in the way that its argument names.
package main

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"

	"example.com/trace/part"
)

type thing struct{ next *thing }

func (t *thing) walk() *thing { return t.next.next }

func deep(n int) int { return deep(n+1) + 1 }

func main() {
	switch os.Args[1] {
	case "panic":
		part.Fail(errors.New("boom: first\nsecond line"))
	case "nil":
		(&thing{}).walk()
	case "index":
		part.Each([]int{1, 2}, func(s []int) { println(s[len(s)+2]) })
	case "goroutine":
		var group sync.WaitGroup
		group.Add(1)
		go func() {
			defer group.Done()
			part.Fail(errors.New("in a goroutine"))
		}()
		group.Wait()
	case "deadlock":
		<-make(chan int)
	case "again":
		defer func() {
			recover()
			panic("again")
		}()
		part.Fail(errors.New("first"))
	case "repanic":
		defer func() { panic(recover()) }()
		part.Fail(errors.New("same"))
	case "deep":
		debug.SetMaxStack(1 << 14)
		deep(0)
	case "map":
		var m map[string]int
		m["x"] = 1
	}
}
