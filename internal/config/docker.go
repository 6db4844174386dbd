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
			doc: "Address of the engine: unix:///path, tcp://host:port (with TLS by DOCKER_CERT_PATH and DOCKER_TLS_VERIFY) or npipe://. Default: DOCKER_HOST, or else the engine's usual socket."},
		{name: "DOCKER_OCI_RUNTIME", value: text(&c.DockerOCIRuntime, checkOCIRuntime),
			doc: "Program that the engine isolates with, by its name in daemon.json: runc, runsc, kata. Default: the engine's. With runsc or kata the runtime has a stronger class of isolation. Enters the policy hash when set."},
		{name: "DOCKER_SECCOMP", value: text(&c.DockerSeccomp), hash: true,
			doc: "File with a seccomp profile in Docker's format. Default: Belljar's own (deploy/docker/seccomp.json). With an engine that cannot use it, no sandbox is made."},
		{name: "DOCKER_APPARMOR_PROFILE", value: text(&c.DockerAppArmorProfile, checkAppArmor), hash: true,
			doc: "Name of an AppArmor profile that is loaded on the engine's machine (deploy/docker/apparmor is one). Default: the engine's. With an engine that lacks AppArmor or the profile, no sandbox is made."},
		{name: "DOCKER_CGROUP_PARENT", value: text(&c.DockerCgroupParent, checkCgroupParent),
			doc: "Cgroup in which the engine makes sandboxes: a path for its driver cgroupfs, a slice for systemd. A limit on that cgroup bounds all of them together. Default: the engine's."},
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

// checkAppArmor refuses what engines take for no profile at all: no sandbox would pass the check of its confinement.
func checkAppArmor(s string) error {
	if strings.HasSuffix(s, "unconfined") {
		return errors.New("names no profile, and sandboxes are never unconfined: name a profile in complain mode, or leave it out for the engine's default")
	}
	return nil
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
