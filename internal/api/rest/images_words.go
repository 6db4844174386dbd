package rest

// imageWords are the descriptions of the properties of images; see [words].
func imageWords() map[string]string {
	return map[string]string{
		"Image.ref": "Its first name: host, or a full reference such as docker.io/library/python:3.11-slim", "Image.names": "All its names, as they were set",
		"Image.digest":  "sha256: and the digest of its manifest for this platform; empty for host",
		"Image.runtime": "The runtime whose engine stores it; empty if it is in Belljar's own store, for every runtime that can use that",
		"Image.source":  "pull, import, build, host or engine", "platform": "Such as linux/amd64", "Image.bytes": "Size of its files, unpacked", "Image.layers": "Number of its layers",
		"Image.config": "Its settings for programs", "Image.created_at": "When it was made, according to the image", "added_at": "When it was added to this server",
		"Image.last_used_at": "When a sandbox last used it, to the minute", "in_use": "Whether a sandbox uses it now",
		"ImageConfig.user": "The user that programs run as, unless it is root", "ImageConfig.env": "NAME=value; a request's env overrides it",
		"working_dir": "Working directory of commands by default, if it exists", "entrypoint": "For information only: a request's command is not prefixed with it", "ImageConfig.cmd": "For information only",
		"ImageConfig.labels":  "Names and values that its author set",
		"ImageProgress.phase": "resolving, pulling, unpacking or done", "ImageProgress.layer": "Digest of the layer that this concerns; absent for the whole image",
		"ImageProgress.done": "Bytes so far", "ImageProgress.total": "Bytes in total; absent if unknown", "ImageProgress.shared": "Whether the layer was already stored",
		"ImagePull.ref": "The image, such as python:3.11-slim", "ImagePull.runtime": "The runtime whose engine is to store it; default: Belljar's own store. Operators only",
		"ImagePull.always": "Whether to resolve the name at the registry again, even if an image of that name is stored",
		"ImageTag.ref":     "The image, by a name or its digest", "ImageTag.name": "Its new name",
		"unused_sec": "Remove images that no sandbox has used for so many seconds", "keep_bytes": "Remove the least recently used images until the rest has at most so many bytes",
		"ImagePrune.all": "Remove every image that is not in use", "ImagePruned.images": "Digests of the removed images", "ImagePruned.bytes": "Bytes freed",
	}
}
