//go:build linux

package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/client"
)

// A program starts a private server, which ends with it.
func ExampleLocal() {
	ctx := context.Background()
	c, err := client.Local(ctx, client.LocalOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	run, output, err := belljar.Finish(ctx, c.Runs(), belljar.RunRequest{RunSpec: belljar.RunSpec{
		SpecVersion: belljar.SpecVersion, BaseImage: "host",
		Language: "python", Code: "print(sum(range(10)))", TimeoutSec: 30,
	}}, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Phase)
	fmt.Print(output.Stdout)
	// Output:
	// completed
	// 45
}
