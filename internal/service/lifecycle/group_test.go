package lifecycle

import (
	"testing"
	"testing/synctest"
)

// Running work may start more work after new work is refused, and Wait waits for all of it.
func TestGroupCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		ended := false
		if !g.Do(func() {
			g.Refuse()
			g.Go(func() {
				<-g.Closing().Done()
				ended = true
			})
		}) {
			t.Fatal("an open group refuses work")
		}
		if g.Enter() || g.Do(func() { t.Error("work began after it was refused") }) || !g.Refused() {
			t.Error("a group that refuses work takes some")
		}
		synctest.Wait()
		if ended || g.Closing().Err() != nil {
			t.Error("work was cancelled before Cancel")
		}
		g.Cancel()
		g.Cancel()
		g.Wait()
		if !ended {
			t.Error("Wait returned before the work was done")
		}
	})
}

// Wait waits for entered work until it is done.
func TestGroupWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		if !g.Enter() {
			t.Fatal("an open group refuses work")
		}
		waited := make(chan struct{})
		go func() {
			g.Wait()
			close(waited)
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait returned while work was under way")
		default:
		}
		g.Done()
		<-waited
	})
}
