# Runs the tests of a Go package one by one, each in a loopback network of its own, and writes what came of them as JSON:
# run.py SERVER OUTPUT TEST_PROGRAM FOLDER WORKERS [FILE_WITH_NAMES]. Left out: what wants a server inside the process.
import re,sys,os,subprocess,json,concurrent.futures as cf,shutil,tempfile,time
server,out,program,where,workers=sys.argv[1:6]
only=set(open(sys.argv[6]).read().split()) if len(sys.argv)>6 else None
bodies={}
import glob
for f in glob.glob(where+'/*_test.go'):
    t=open(f).read()
    for m in re.finditer(r'^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}',t,re.M|re.S):
        bodies[m.group(1)]=(os.path.basename(f),m.group(2))
bad=re.compile(r'lookupStream|lobalAccount\(|createJetStream\w*Cluster|createMixed|createJetStreamSuper|createClusterWith|createLeaf|s\.mu\b|\.getJetStream|lookupAccount|LookupAccount|RegisterAccount|createTestSuper|newFileStore|newMemStore|NewAccount\(|setupConn|newClientForServer|dummyClient|initRaft|runRaft|cluster\b.*\{|gateway\b.*\{|leafnodes?\b.*\{|mqtt\b.*\{|setupClient\(|NewSublist|\.sl\b|\.clients\b|tempRaft|DefaultTestOptionsForGateway|testDefaultOptionsForGateway|testDefaultLeafNode|runLeafServer|runNewRouteServer|Cluster\.Port|SetLogger|RunServerWithLogging|createJetStreamTagged|initJSRaft|ConfigureLogger|StartProfiler|fileStore\b|memStore\b|getClient\(|newTestSup|createSuper')
skipf=re.compile(r'cluster|raft|gateway|leafnode|mqtt|routes|filestore|memstore|store_test|sublist|opts_test|parser_test|split_test|dirstore|ipqueue|ocsp|windows|certstore|log_test|util_test|ring_test|service_test|subject_transform|errors_test|norace_2|tpm|bench|route_disc|gosrv')
skipw=os.environ.get("NOFILTER")
names=[n for n,(f,b) in bodies.items() if (only is None or n in only) and (skipw or not skipf.search(f) and not bad.search(b))]
names.sort(key=lambda n:(bodies[n][0],n))
print(len(names),'tests',flush=True)
res={}
def go(n):
    tmp=tempfile.mkdtemp(prefix='t',dir=work)
    env=dict(os.environ,TESTED_SERVER=server,TMPDIR=tmp,OUTSIDE_LOG=os.environ.get('OUTSIDE_LOG',''))
    b=time.time()
    try:
        p=subprocess.run(['unshare','-n','sh','-c','ip link set lo up; exec "$@"','x',program,'-test.v','-test.timeout','60s','-test.run',f'^{n}$'],cwd=where,env=env,stdout=subprocess.PIPE,stderr=subprocess.STDOUT,timeout=90)
        o=p.stdout.decode(errors='replace')
    except subprocess.TimeoutExpired as e:
        o='TIMEOUT '+(e.stdout or b'').decode(errors='replace')
    shutil.rmtree(tmp,ignore_errors=True)
    r='skip' if re.search(r'^--- SKIP',o,re.M) else 'pass' if re.search(r'^--- PASS',o,re.M) and 'PANIC IN' not in o else 'fail'
    return n,(r,bodies[n][0],time.time()-b,o[-6000:] if r=='fail' else '')
work=tempfile.mkdtemp(prefix='go-server-tests')
with cf.ThreadPoolExecutor(int(workers)) as ex:
    for i,(n,r) in enumerate(ex.map(go,names)):
        res[n]=r
        if i%20==0: json.dump(res,open(out,'w'))
json.dump(res,open(out,'w'))
import collections
print(collections.Counter(r[0] for r in res.values()))
shutil.rmtree(work,ignore_errors=True)
