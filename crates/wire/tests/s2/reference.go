// What the reference's library makes of S2: `encode LEVEL` writes each frame of pieces from the standard input as nats-server
// writes a flush of a link, `write OPTIONS` one stream with everything a writer can put in, `decode` reads a stream, `speed`
// measures both ways.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/klauspost/compress/s2"
)

func options(level string) []s2.WriterOption {
	opts := []s2.WriterOption{s2.WriterConcurrency(1)}
	switch level {
	case "uncompressed":
		opts = append(opts, s2.WriterUncompressed())
	case "better":
		opts = append(opts, s2.WriterBetterCompression())
	case "best":
		opts = append(opts, s2.WriterBestCompression())
	}
	return opts
}

func fail(err error) {
	if err != nil {
		fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
}

func input() []byte {
	all, err := io.ReadAll(os.Stdin)
	fail(err)
	return all
}

// Frames: a count of pieces, then each with its length, four bytes each.
func frames(all []byte) (frames [][][]byte) {
	next := func() uint32 {
		n := binary.LittleEndian.Uint32(all)
		all = all[4:]
		return n
	}
	for len(all) > 0 {
		var pieces [][]byte
		for count := next(); count > 0; count-- {
			n := next()
			pieces = append(pieces, all[:n])
			all = all[n:]
		}
		frames = append(frames, pieces)
	}
	return frames
}

func encode(level string) {
	w := s2.NewWriter(nil, options(level)...)
	for _, pieces := range frames(input()) {
		var out bytes.Buffer
		w.Reset(&out)
		for _, piece := range pieces {
			_, err := w.Write(piece)
			fail(err)
		}
		fail(w.Close())
		os.Stdout.Write(out.Bytes())
	}
}

func write(level string) {
	all := input()
	opts := append(options(level), s2.WriterPadding(1000), s2.WriterAddIndex(), s2.WriterBlockSize(64<<10))
	w := s2.NewWriter(os.Stdout, opts...)
	for i := 0; len(all) > 0; i++ {
		n := min(len(all), 1+i*i*777)
		_, err := w.Write(all[:n])
		fail(err)
		fail(w.Flush())
		fail(w.AddSkippableBlock(0x80+uint8(i%100), bytes.Repeat([]byte{7}, 1+i*i)))
		all = all[n:]
	}
	fail(w.Close())
}

func speed(level string, size int) {
	raw := input()
	w := s2.NewWriter(nil, options(level)...)
	var out bytes.Buffer
	once := func() {
		out.Reset()
		for at := 0; at < len(raw); at += size {
			w.Reset(&out)
			w.Write(raw[at:min(len(raw), at+size)])
			w.Close()
		}
	}
	encoded := rate(once, len(raw))
	r, room := s2.NewReader(nil), make([]byte, 64<<10)
	decoded := rate(func() {
		r.Reset(bytes.NewReader(out.Bytes()))
		for {
			if _, err := r.Read(room); err != nil {
				break
			}
		}
	}, len(raw))
	fmt.Printf("%d %d %d\n", encoded, decoded, out.Len())
}

// MB for each second of the processor's time, that of the collector with it.
func rate(once func(), size int) int {
	once()
	runs, start := 0, cpuTime()
	for cpuTime()-start < 500*time.Millisecond {
		once()
		runs++
	}
	return int(float64(size) * float64(runs) / (cpuTime() - start).Seconds() / 1e6)
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	fail(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	switch os.Args[1] {
	case "encode":
		encode(os.Args[2])
	case "write":
		write(os.Args[2])
	case "decode":
		_, err := io.Copy(os.Stdout, s2.NewReader(os.Stdin))
		fail(err)
	case "speed":
		size, err := strconv.Atoi(os.Args[3])
		fail(err)
		speed(os.Args[2], size)
	}
}
