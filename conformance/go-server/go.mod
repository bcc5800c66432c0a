module myelin.test/outside

go 1.25.0

require github.com/nats-io/nats-server/v2 v2.15.2
