package config

import (
	"errors"
	"path"
	"regexp"
	"strings"
)

func docker(c *Config) []row {
	return []row{
		{name: "DOCKER_HOST", value: text(&c.DockerHost, checkDockerHost),
			doc: "Address of the engine: unix:///path, tcp://host:port (with TLS as DOCKER_CERT_PATH and DOCKER_TLS_VERIFY say) or npipe://. Unset, it is DOCKER_HOST's, or else the socket where engines usually have it."},
		{name: "DOCKER_OCI_RUNTIME", value: text(&c.DockerOCIRuntime, checkOCIRuntime),
			doc: "Program that the engine isolates with, by the name in its daemon.json: runc, runsc, kata. Unset, it is the engine's default. With runsc or kata the runtime counts as a stronger wall."},
		{name: "DOCKER_SECCOMP", value: text(&c.DockerSeccomp), hash: true,
			doc: "File with a seccomp profile in Docker's form. Unset, it is Belljar's own (deploy/docker/seccomp.json). An engine that cannot use it makes no sandbox."},
		{name: "DOCKER_APPARMOR_PROFILE", value: text(&c.DockerAppArmorProfile), hash: true,
			doc: "AppArmor profile by its name, loaded where the engine is (deploy/docker/apparmor is one). Unset, it is the engine's default. An engine without AppArmor or the profile makes no sandbox."},
		{name: "DOCKER_CGROUP_PARENT", value: text(&c.DockerCgroupParent, checkCgroupParent),
			doc: "Cgroup that the engine makes sandboxes below: a path for its driver cgroupfs, a slice for systemd. What limits that cgroup bounds all of them together. Unset, it is the engine's default."},
	}
}

func checkDockerHost(s string) error {
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case s == "", ok && rest != "" && (scheme == "unix" || scheme == "tcp" || scheme == "npipe"):
		return nil
	case scheme == "ssh":
		return errors.New("cannot be ssh: forward the engine's socket (ssh -L) and give its path as unix://")
	}
	return errors.New("is not unix:///path, tcp://host:port or npipe://")
}

func checkCgroupParent(s string) error {
	if s == "" || path.IsAbs(s) && path.Clean(s) == s && s != "/" || regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*\.slice$`).MatchString(s) {
		return nil
	}
	return errors.New("is not an absolute path below / nor the name of a slice (belljar.slice)")
}

func checkOCIRuntime(s string) error {
	if s != "" && !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`).MatchString(s) {
		return errors.New("is not the name of an OCI runtime")
	}
	return nil
}
