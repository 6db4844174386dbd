package config

import "testing"

func TestDockerHost(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "unix:///var/run/docker.sock": true, "tcp://10.0.0.1:2376": true, "npipe:////./pipe/docker_engine": true,
		"ssh://host": false, "/var/run/docker.sock": false, "unix://": false, "http://host": false, "host:2375": false,
	} {
		if err := checkDockerHost(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOCIRuntime(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "runsc": true, "io.containerd.kata.v2": true, "a b": false, "../runc": false, "-x": false} {
		if err := checkOCIRuntime(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCgroupParent(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "/belljar-docker": true, "/a/b": true, "belljar.slice": true,
		"/": false, "belljar": false, "a/b.slice": false, "../x": false, "/a/../b": false, "/a/": false, ".slice": false, "-x.slice": false,
	} {
		if err := checkCgroupParent(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
