//! The text of `-help`. It lists what works and nothing else.

/// What `-help` prints on standard output, and what follows a complaint about a flag.
pub fn usage() -> &'static str {
    USAGE
}

const USAGE: &str = "
Usage: myelin-server [options]

Server Options:
    -a, --addr, --net <host>         Address to listen on (default: 0.0.0.0)
    -p, --port <port>                Port for clients, -1 for any free one (default: 4222)
    -n, --name
        --server_name <name>         Name of this server (default: its id)
    -P, --pid <file>                 Write the process id to a file
    -m, --http_port <port>           Port for monitoring over HTTP
    -c, --config <file>              Read a configuration file
    -t                               Check the configuration file and exit
    -sl,--signal <signal>[=<pid>]    Signal a running server: ldm, stop, quit, term, reopen, reload
                                     <pid> is a process id or the path of a pid file
        --client_advertise <address> Address that clients are told to connect to
        --ports_file_dir <dir>       Write the ports in use to <executable>_<pid>.ports in a directory

Logging Options:
    -l, --log <file>                 Write the log to a file
    -T, --logtime                    Begin log lines with the time (default: true)
        --logtime_utc                That time is UTC (default: local time)
    -D, --debug                      Log debugging lines
    -V, --trace                      Log the protocol
    -VV                              Log the protocol, the system account included
    -DV                              The same as -D -V
    -DVV                             The same as -D -VV
        --log_size_limit <bytes>     Start a new log file at this size
        --max_traced_msg_len <bytes> Cut messages in the log at this length (default: unlimited)

JetStream Options:
    -js, --jetstream                 Enable JetStream (this version accepts the flag and warns)
    -sd, --store_dir <dir>           Directory for JetStream's files

Authorization Options:
        --user <user>                User name that clients must give
        --pass <password>            Password that clients must give
        --auth <token>               Token that clients must give

Common Options:
    -h, --help                       Show this text
    -v, --version                    Show the version
";
