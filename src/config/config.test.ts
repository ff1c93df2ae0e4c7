import { test } from 'node:test';
import assert from 'node:assert/strict';
import { USUAL_SHAPING } from '../delivery/shaping-settings.ts';
import { MAIL_RETRY_WAITS_MS } from '../core/retry.ts';
import { type Config, readConfig, type System } from './config.ts';
import type { Env } from './env-reader.ts';

const SYSTEM: System = {
  isRoot: false,
  hostname: 'build-7',
  cloneDir: '/home/ada/posthorn',
  localIps: ['127.0.0.1', '192.0.2.7', '2001:db8::7'],
};

function configOf(env: Env, system: Partial<System> = {}): Config {
  const outcome = readConfig(env, { ...SYSTEM, ...system });
  assert.ok(outcome.ok, outcome.ok ? '' : outcome.problems.join('\n'));
  return outcome.config;
}

function problemsOf(env: Env): string[] {
  const outcome = readConfig(env, SYSTEM);
  return outcome.ok ? [] : outcome.problems;
}

test('no variable is required', () => {
  assert.deepEqual(configOf({ PATH: '/bin' }), {
    databaseUrl: null,
    databaseBytesMax: null,
    dataDir: '/home/ada/posthorn/data',
    host: '127.0.0.1',
    port: 3000,
    portAsked: false,
    trustedProxies: [],
    logLevel: 'info',
    publicUrl: null,
    trackingUrl: null,
    metrics: null,
    metricsToken: null,
    apiTlsFiles: null,
    hostname: 'build-7',
    hostnameAsked: false,
    secretKey: null,
    relay: null,
    sources: [],
    shaping: USUAL_SHAPING,
    retryWaitsMs: MAIL_RETRY_WAITS_MS,
    dnsServers: null,
    dnsTrustAd: false,
    mxPort: 25,
    mtaStsPort: 443,
    smtpTimeoutMs: null,
    reputationEveryMs: 30_000,
    allowPrivateNetworks: false,
    smtpHost: null,
    inboundPort: null,
    submissionPorts: [],
    submissionShowsClient: false,
    smtpClientTimeoutMs: null,
    unmatchedBytesMax: 256 * 1024 ** 2,
    tlsFiles: null,
    failpoints: [],
    limits: {
      sending: { max: 100, windowS: 60 },
      recipients: null,
      verification: { max: 10, windowS: 60 },
      domains: { max: 60, windowS: 60 },
      webhooks: { max: 60, windowS: 60 },
      auth: { max: 20, windowS: 60 },
    },
    domainsMax: 1000,
    acceptDatabaseDurability: false,
    retention: { contentH: 45 * 24, metadataH: 90 * 24 },
  });
});

test('the former name of the reputation interval still works', () => {
  const config = configOf({ PATH: '/bin', POSTHORN_GUARD_INTERVAL_S: '7' });
  assert.ok('reputationEveryMs' in config);
  assert.equal(config.reputationEveryMs, 7_000);
});

test('an empty variable counts as not set', () => {
  assert.deepEqual(configOf({ PORT: '', POSTHORN_RELAY_URL: '  ' }), configOf({}));
});

test('root keeps its data under /var/lib unless configured', () => {
  const dataDir = (env: Env) => configOf(env, { isRoot: true }).dataDir;
  assert.equal(dataDir({}), '/var/lib/posthorn');
  assert.equal(dataDir({ POSTHORN_DATA_DIR: '/srv/mail/' }), '/srv/mail');
});

test('every variable is read', () => {
  const config = configOf({
    POSTHORN_METRICS_PORT: '192.0.2.7:9464',
    POSTHORN_API_TLS_CERT: '/etc/tls/api.pem',
    POSTHORN_API_TLS_KEY: '/etc/tls/api-key.pem',
    POSTHORN_METRICS_TOKEN: 'm'.repeat(16),
    DATABASE_URL: 'postgres://app:pw@db.internal/posthorn',
    POSTHORN_DATA_DIR: '/srv/mail',
    HOST: '::',
    PORT: '0',
    POSTHORN_TRUSTED_PROXIES: '10.0.0.0/8, 2001:db8::1',
    POSTHORN_LOG: 'DEBUG',
    POSTHORN_PUBLIC_URL: 'https://mail.acme.com/',
    POSTHORN_TRACKING_URL: 'https://links.acme.com/',
    POSTHORN_HOSTNAME: 'MX1.acme.com',
    POSTHORN_SECRET_KEY: 'k'.repeat(32),
    POSTHORN_RELAY_URL: 'smtps://us%40er:p%2Fw@relay.acme.com',
    POSTHORN_SOURCE_IPS: '192.0.2.7, 2001:db8::7=Six.acme.com,127.0.0.9=mx9.acme.com',
    POSTHORN_RETRY_WAITS: '30s, 5m,4h',
    POSTHORN_DNS_SERVERS: '9.9.9.9,127.0.0.1:5353,[::1]:53',
    POSTHORN_DNS_TRUST_AD: 'yes',
    POSTHORN_MX_PORT: '2525',
    POSTHORN_MTA_STS_PORT: '8443',
    POSTHORN_SMTP_TIMEOUT_S: '20',
    POSTHORN_REPUTATION_INTERVAL_S: '5',
    POSTHORN_SMTP_HOST: '192.0.2.7',
    POSTHORN_SMTP_CLIENT_TIMEOUT_S: '10',
    POSTHORN_UNMATCHED_MB: '64',
    POSTHORN_DATABASE_MAX_MB: '20000',
    POSTHORN_INBOUND_PORT: '25',
    POSTHORN_SUBMISSION_PORTS: '587, 465, 2465/tls',
    POSTHORN_SUBMISSION_SHOW_CLIENT: '1',
    POSTHORN_TLS_CERT: '/etc/tls/cert.pem',
    POSTHORN_TLS_KEY: '/etc/tls/key.pem',
    POSTHORN_ALLOW_PRIVATE_NETWORKS: '1',
    POSTHORN_LIMIT_SENDING: '5000/3600',
    POSTHORN_LIMIT_RECIPIENTS: '9000/3600',
    POSTHORN_LIMIT_VERIFICATION: '1/1',
    POSTHORN_LIMIT_DOMAINS: '2/60',
    POSTHORN_LIMIT_WEBHOOKS: '3/60',
    POSTHORN_DOMAINS_MAX: '5000',
    POSTHORN_LIMIT_AUTH: '7/60',
    POSTHORN_ACCEPT_DATABASE_DURABILITY: 'true',
    POSTHORN_RETENTION_CONTENT: '36h',
    POSTHORN_RETENTION_METADATA: '400d',
    POSTHORN_FAILPOINTS: 'smtp_after_dot=kill@3',
  });
  assert.deepEqual(config, {
    databaseUrl: 'postgres://app:pw@db.internal/posthorn',
    databaseBytesMax: 20_000 * 1024 ** 2,
    dataDir: '/srv/mail',
    host: '::',
    port: 0,
    portAsked: true,
    trustedProxies: ['10.0.0.0/8', '2001:db8::1'],
    logLevel: 'debug',
    publicUrl: 'https://mail.acme.com',
    trackingUrl: 'https://links.acme.com',
    metrics: { host: '192.0.2.7', port: 9464 },
    apiTlsFiles: { cert: '/etc/tls/api.pem', key: '/etc/tls/api-key.pem' },
    metricsToken: 'm'.repeat(16),
    hostname: 'mx1.acme.com',
    hostnameAsked: true,
    secretKey: 'k'.repeat(32),
    relay: {
      host: 'relay.acme.com',
      port: 465,
      implicitTls: true,
      auth: { user: 'us@er', pass: 'p/w' },
    },
    sources: [
      { ip: '192.0.2.7', heloName: 'mx1.acme.com' },
      { ip: '2001:db8::7', heloName: 'six.acme.com' },
      { ip: '127.0.0.9', heloName: 'mx9.acme.com' },
    ],
    shaping: USUAL_SHAPING,
    retryWaitsMs: [30_000, 300_000, 14_400_000],
    dnsServers: ['9.9.9.9:53', '127.0.0.1:5353', '[::1]:53'],
    dnsTrustAd: true,
    mxPort: 2525,
    mtaStsPort: 8443,
    smtpTimeoutMs: 20_000,
    reputationEveryMs: 5_000,
    allowPrivateNetworks: true,
    smtpHost: '192.0.2.7',
    inboundPort: 25,
    submissionShowsClient: true,
    submissionPorts: [
      { port: 587, implicitTls: false },
      { port: 465, implicitTls: true },
      { port: 2465, implicitTls: true },
    ],
    smtpClientTimeoutMs: 10_000,
    unmatchedBytesMax: 64 * 1024 ** 2,
    tlsFiles: { cert: '/etc/tls/cert.pem', key: '/etc/tls/key.pem' },
    limits: {
      sending: { max: 5000, windowS: 3600 },
      recipients: { max: 9000, windowS: 3600 },
      verification: { max: 1, windowS: 1 },
      domains: { max: 2, windowS: 60 },
      webhooks: { max: 3, windowS: 60 },
      auth: { max: 7, windowS: 60 },
    },
    domainsMax: 5000,
    acceptDatabaseDurability: true,
    retention: { contentH: 36, metadataH: 9600 },
    failpoints: [{ name: 'smtp_after_dot', action: 'kill', hit: 3 }],
  });
});

test('retention is 45 and 90 days by default, unlimited with off, and content is not kept longer than its email', () => {
  const kept = (env: Env) => configOf(env).retention;
  assert.deepEqual(kept({ POSTHORN_RETENTION_METADATA: 'off' }), {
    contentH: 45 * 24,
    metadataH: null,
  });
  assert.deepEqual(kept({ POSTHORN_RETENTION_METADATA: '30d' }), { contentH: 720, metadataH: 720 });
  const longer = { POSTHORN_RETENTION_CONTENT: 'off', POSTHORN_RETENTION_METADATA: '90d' };
  assert.deepEqual(problemsOf(longer), [
    'POSTHORN_RETENTION_CONTENT: content cannot be kept for longer than the email it belongs to; ' +
      'raise POSTHORN_RETENTION_METADATA too.',
  ]);
});

test('SMTP ports are off by default', () => {
  const ports = (env: Env) => {
    const { inboundPort, submissionPorts } = configOf(env);
    return [inboundPort, submissionPorts.map(({ port, implicitTls }) => [port, implicitTls])];
  };
  const off = { POSTHORN_INBOUND_PORT: 'off', POSTHORN_SUBMISSION_PORTS: 'Off' };
  assert.deepEqual(ports(off), [null, []]);
  const any = { POSTHORN_INBOUND_PORT: '0', POSTHORN_SUBMISSION_PORTS: '0,0/tls' };
  assert.deepEqual(ports(any), [0, [[0, false], [0, true]]]); // prettier-ignore
});

test('a relay without a port gets the default port of its protocol', () => {
  const port = (url: string) => configOf({ POSTHORN_RELAY_URL: url }).relay?.port;
  assert.equal(port('smtp://relay.acme.com'), 25);
  assert.equal(port('smtp://ada:secret@relay.acme.com'), 587);
  assert.equal(port('smtps://relay.acme.com'), 465);
  assert.equal(port('smtp://relay.acme.com:2525'), 2525);
});

test('all problems are reported at once, one line each', () => {
  assert.deepEqual(
    problemsOf({ PORT: '70000', POSTHORN_LIMIT_AUTH: '20', POSTHORN_DNS_SERVERS: '9.9.9.9,dns' }),
    [
      'PORT: "70000" is not understood; write a number from 1 to 65535, or 0 for any.',
      'POSTHORN_DNS_SERVERS: "dns" is not understood; write servers separated by commas, as ' +
        '9.9.9.9 or 127.0.0.1:5353 or [::1]:53.',
      'POSTHORN_LIMIT_AUTH: "20" is not understood; write requests per seconds, as 100/60 (at ' +
        'most 86400 seconds).',
    ],
  );
});

const WRONG: Env[] = [
  { DATABASE_URL: 'mysql://root@db/x' },
  { DATABASE_URL: 'postgres://u@one:5432,two:x/db' },
  { DATABASE_URL: 'postgres://app@/x?host=/run/postgresql' },
  { HOST: 'http://0.0.0.0' },
  { PORT: '3000a' },
  { PORT: '-1' },
  { POSTHORN_TRUSTED_PROXIES: '10.0.0.0/33' },
  { POSTHORN_TRUSTED_PROXIES: 'proxy.local' },
  { POSTHORN_LOG: 'loud' },
  { POSTHORN_PUBLIC_URL: 'mail.acme.com' },
  { POSTHORN_TRACKING_URL: 'links.acme.com' },
  { POSTHORN_HOSTNAME: '192.0.2.7' },
  { POSTHORN_HOSTNAME: 'mx_1..acme.com' },
  { POSTHORN_SECRET_KEY: 'short' },
  { POSTHORN_RELAY_URL: 'http://relay.acme.com' },
  { POSTHORN_RELAY_URL: 'smtp://user@relay.acme.com' },
  { POSTHORN_RELAY_URL: 'smtp://us%zz:pw@relay.acme.com' },
  { POSTHORN_SOURCE_IPS: '198.51.100.1' },
  { POSTHORN_SOURCE_IPS: '192.0.2.7=mx_1..acme.com' },
  { POSTHORN_SOURCE_IPS: '192.0.2.7=a.test=b.test' },
  { POSTHORN_SOURCE_IPS: '192.0.2.7=a.test,192.0.2.7=b.test' },
  { POSTHORN_RETRY_WAITS: '5m,4' },
  { POSTHORN_DNS_TRUST_AD: 'maybe' },
  { POSTHORN_MX_PORT: '0' },
  { POSTHORN_SMTP_TIMEOUT_S: '0.5' },
  { POSTHORN_SMTP_TIMEOUT_S: '601' },
  { POSTHORN_GUARD_INTERVAL_S: '0' },
  { POSTHORN_REPUTATION_INTERVAL_S: '0' },
  { POSTHORN_DOMAINS_MAX: '0' },
  { POSTHORN_DOMAINS_MAX: '1000001' },
  { POSTHORN_INBOUND_PORT: 'x' },
  { POSTHORN_SUBMISSION_PORTS: '587/ssl' },
  { POSTHORN_SUBMISSION_PORTS: '587,587/tls' },
  { POSTHORN_SUBMISSION_PORTS: '25', POSTHORN_INBOUND_PORT: '25' },
  { POSTHORN_SMTP_HOST: 'http://x' },
  { POSTHORN_SMTP_CLIENT_TIMEOUT_S: '0' },
  { POSTHORN_UNMATCHED_MB: '31' },
  { POSTHORN_DATABASE_MAX_MB: '20 GB' },
  { POSTHORN_TLS_CERT: '', POSTHORN_TLS_KEY: '/etc/tls/key.pem' },
  { POSTHORN_TLS_KEY: '', POSTHORN_TLS_CERT: '/etc/tls/cert.pem' },
  { POSTHORN_LIMIT_SENDING: '0/60' },
  { POSTHORN_RETENTION_CONTENT: '45' },
  { POSTHORN_RETENTION_CONTENT: '23h' },
  { POSTHORN_RETENTION_METADATA: '0d' },
];

for (const env of WRONG) {
  const [[name, value] = ['', '']] = Object.entries(env);
  test(`${name}=${value} is a problem that names the variable`, () => {
    const problems = problemsOf(env);
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? '', new RegExp(`^${name}: .*\\.$`));
  });
}

test('a problem never repeats a value that may hold a password', () => {
  const problems = problemsOf({
    DATABASE_URL: 'db.internal hunter2',
    POSTHORN_RELAY_URL: 'user:hunter2@relay',
    POSTHORN_SECRET_KEY: 'hunter2',
  });
  assert.equal(problems.length, 3);
  assert.ok(!problems.join().includes('hunter2'));
});

test('a misspelt variable is reported with the likely name', () => {
  assert.deepEqual(
    problemsOf({ POSTHORN_MXPORT: '25', POSTHORN_PORT: '80', POSTHORN_XYZZY: '1' }),
    [
      'POSTHORN_MXPORT: there is no such variable; did you mean POSTHORN_MX_PORT? Rename or unset it.',
      'POSTHORN_PORT: there is no such variable; did you mean PORT? Rename or unset it.',
      'POSTHORN_XYZZY: there is no such variable; unset it.',
    ],
  );
});

test('variables that Kubernetes sets for a service named posthorn are ignored', () => {
  configOf({
    POSTHORN_SERVICE_HOST: '10.0.0.1',
    POSTHORN_SERVICE_PORT: '3000',
    POSTHORN_PORT: 'tcp://10.0.0.1:3000',
    POSTHORN_PORT_3000_TCP_PROTO: 'tcp',
  });
});

test('metrics are served on the loopback address by default', () => {
  const metrics = (text: string) => configOf({ POSTHORN_METRICS_PORT: text }).metrics;
  assert.deepEqual(metrics('9464'), { host: '127.0.0.1', port: 9464 });
  assert.deepEqual(metrics('10.0.0.5:9464'), { host: '10.0.0.5', port: 9464 });
  assert.deepEqual(metrics('[::1]:0'), { host: '::1', port: 0 });
  assert.equal(metrics('off'), null);
  for (const text of ['70000', 'x', ':1', 'host:1', '::1:5']) {
    assert.equal(problemsOf({ POSTHORN_METRICS_PORT: text }).length, 1, text);
  }
  for (const token of ['short', 'with spaces in between']) {
    const [problem = ''] = problemsOf({ POSTHORN_METRICS_TOKEN: token });
    assert.match(problem, /^POSTHORN_METRICS_TOKEN: its value is not understood/);
    assert.ok(!problem.includes(token));
  }
});
