module github.com/synadia-io/orbit.go/ntf

go 1.26.0

require (
	github.com/nats-io/nats.go v1.55.0
	github.com/synadia-io/orbit.go/ntf-client v0.0.3
)
