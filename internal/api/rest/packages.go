package rest

// packageWords are the descriptions of the properties of packages, as [words].
func packageWords() map[string]string {
	const wanted = "Packages to install first, for the sandbox to read below /packages"
	const lock = "The installed packages, with all of their dependencies"
	return map[string]string{
		"RunSpec.packages": wanted, "SessionSpec.packages": wanted, "OpenRequest.packages": wanted,
		"packages": lock, "Packages.pip": "Requirements for Python: names, with extras and versions", "Packages.npm": "Packages for Node: names, with versions",
		"Packages.apt": "Refused: Debian's packages belong into an image", "Packages.build": "Allow packages to run their build scripts when they are installed",
		"Packages.refresh": "Look for newer versions now", "PackageLock.pip": "Of Python", "PackageLock.npm": "Of Node",
		"Package.hash": "Digest of the file that it came in", "Package.name": "Its name", "Package.version": "Its version",
	}
}
