package server

import original "github.com/nats-io/nats-server/v2/server"

// What tests take of the original beside servers.
var (
	NewAccount        = original.NewAccount
	ProcessConfigFile = original.ProcessConfigFile
)

const (
	CLIENT     = original.CLIENT
	ROUTER     = original.ROUTER
	GATEWAY    = original.GATEWAY
	LEAF       = original.LEAF
	ConnClosed = original.ConnClosed
	ConnAll    = original.ConnAll
	ConnOpen   = original.ConnOpen
)

type (
	Account                   = original.Account
	AccountDetail             = original.AccountDetail
	AccountInfo               = original.AccountInfo
	Accountz                  = original.Accountz
	AccountzEventOptions      = original.AccountzEventOptions
	AccountStat               = original.AccountStat
	ClusterInfo               = original.ClusterInfo
	ClusterOpts               = original.ClusterOpts
	ConnInfo                  = original.ConnInfo
	Connz                     = original.Connz
	ConnInfos                 = original.ConnInfos
	ConnzEventOptions         = original.ConnzEventOptions
	ConnzOptions              = original.ConnzOptions
	ConsumerInfo              = original.ConsumerInfo
	EventFilterOptions        = original.EventFilterOptions
	Gatewayz                  = original.Gatewayz
	GatewayzEventOptions      = original.GatewayzEventOptions
	GatewayzOptions           = original.GatewayzOptions
	HealthStatus              = original.HealthStatus
	HealthzEventOptions       = original.HealthzEventOptions
	HealthzOptions            = original.HealthzOptions
	IpqueueszEventOptions     = original.IpqueueszEventOptions
	IpqueueszOptions          = original.IpqueueszOptions
	IpqueueszStatus           = original.IpqueueszStatus
	JSInfo                    = original.JSInfo
	JSzOptions                = original.JSzOptions
	JetStreamConfig           = original.JetStreamConfig
	JetStreamStats            = original.JetStreamStats
	JetStreamVarz             = original.JetStreamVarz
	JszEventOptions           = original.JszEventOptions
	LeafInfo                  = original.LeafInfo
	Leafz                     = original.Leafz
	LeafzEventOptions         = original.LeafzEventOptions
	LeafzOptions              = original.LeafzOptions
	LeafNodeOpts              = original.LeafNodeOpts
	MetaClusterInfo           = original.MetaClusterInfo
	MsgTraceEgress            = original.MsgTraceEgress
	Options                   = original.Options
	PeerInfo                  = original.PeerInfo
	ProfilezEventOptions      = original.ProfilezEventOptions
	ProfilezOptions           = original.ProfilezOptions
	ProfilezStatus            = original.ProfilezStatus
	RaftGroupDetail           = original.RaftGroupDetail
	RaftzEventOptions         = original.RaftzEventOptions
	RaftzGroup                = original.RaftzGroup
	RaftzOptions              = original.RaftzOptions
	RaftzStatus               = original.RaftzStatus
	RemoteGatewayz            = original.RemoteGatewayz
	RouteInfo                 = original.RouteInfo
	Routez                    = original.Routez
	RoutezEventOptions        = original.RoutezEventOptions
	SequenceInfo              = original.SequenceInfo
	ServerAPIAccountzResponse = original.ServerAPIAccountzResponse
	ServerAPIConnzResponse    = original.ServerAPIConnzResponse
	ServerAPIGatewayzResponse = original.ServerAPIGatewayzResponse
	ServerAPIHealthzResponse  = original.ServerAPIHealthzResponse
	ServerAPIJszResponse      = original.ServerAPIJszResponse
	ServerAPILeafzResponse    = original.ServerAPILeafzResponse
	ServerAPIRaftzResponse    = original.ServerAPIRaftzResponse
	ServerAPIRoutezResponse   = original.ServerAPIRoutezResponse
	ServerAPISubszResponse    = original.ServerAPISubszResponse
	ServerAPIVarzResponse     = original.ServerAPIVarzResponse
	ServerAPIpqueueszResponse = original.ServerAPIpqueueszResponse
	ServerInfo                = original.ServerInfo
	ServerStats               = original.ServerStats
	ServerStatsMsg            = original.ServerStatsMsg
	StatszEventOptions        = original.StatszEventOptions
	StreamDetail              = original.StreamDetail
	StreamInfo                = original.StreamInfo
	StreamState               = original.StreamState
	Subsz                     = original.Subsz
	SubszEventOptions         = original.SubszEventOptions
	SubszOptions              = original.SubszOptions
	User                      = original.User
	Varz                      = original.Varz
	VarzEventOptions          = original.VarzEventOptions
	VarzOptions               = original.VarzOptions
)
