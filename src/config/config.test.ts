/** Every variable: its default, its values and the sentence about a wrong one. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { DEFAULT_SHAPING } from '../delivery/shaping/settings.ts';
import { MAIL_RETRY_WAITS_MS } from '../core/retry.ts';
import { type Config, readConfig, type System } from './config.ts';
import type { Env } from './env-file.ts';
import { DAY_MS } from '../lib/units.ts';

const SYSTEM: System = {
  isRoot: false,
  hostname: 'build-7',
  cloneDir: '/home/ada/letterhaus',
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
  const { variables, ...values } = configOf({ PATH: '/bin' });
  assert.ok(variables.every(({ isSet }) => !isSet));
  assert.deepEqual(values, {
    databaseUrl: null,
    databaseBytesMax: null,
    storageBytesMax: null,
    dataDir: '/home/ada/letterhaus/data',
    host: '127.0.0.1',
    port: 3000,
    isPortConfigured: false,
    trustedProxies: [],
    logLevel: 'info',
    logRecipients: 'domain',
    publicUrl: null,
    trackingUrl: null,
    metrics: null,
    metricsToken: null,
    operatorWebhook: null,
    operatorAddress: null,
    operatorFrom: null,
    isDoctorDaily: true,
    spamhausKey: null,
    acme: null,
    oidc: null,
    apiTlsFiles: null,
    hostname: 'build-7',
    isHostnameConfigured: false,
    secretKey: null,
    relay: null,
    sources: [],
    shaping: DEFAULT_SHAPING,
    retryWaitsMs: MAIL_RETRY_WAITS_MS,
    dnsProvider: null,
    dnsServers: null,
    dnsTrustAd: false,
    mxPort: 25,
    mtaStsPort: 443,
    smtpTimeoutMs: null,
    domainsEveryMs: 60_000,
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
    suppressionsMax: 500_000,
    acceptDatabaseDurability: false,
    migrateWithoutBackup: false,
    retention: { contentH: 45 * 24, metadataH: 90 * 24 },
    backup: {
      to: null,
      everyMs: 6 * 3600_000,
      keep: 28,
      passphrase: null,
      recipients: [],
      pointInTime: { to: null, everyMs: 7 * DAY_MS, keepMs: 14 * DAY_MS },
      s3: null,
    },
  });
});

test('the former name of the reputation interval still works', () => {
  const config = configOf({ PATH: '/bin', LETTERHAUS_GUARD_INTERVAL_S: '7' });
  assert.ok('reputationEveryMs' in config);
  assert.equal(config.reputationEveryMs, 7_000);
});

test('an empty variable counts as not set', () => {
  assert.deepEqual(configOf({ PORT: '', LETTERHAUS_RELAY_URL: '  ' }), configOf({}));
});

test('root keeps its data under /var/lib unless configured', () => {
  const dataDir = (env: Env) => configOf(env, { isRoot: true }).dataDir;
  assert.equal(dataDir({}), '/var/lib/letterhaus');
  assert.equal(dataDir({ LETTERHAUS_DATA_DIR: '/srv/mail/' }), '/srv/mail');
});

const RECIPIENT = 'age1lggyhqrw2nlhcxprm67z43rta597azn8gknawjehu9d9dl0jq3yqqvfafg';

test('every variable is read', () => {
  const { variables, ...config } = configOf({
    LETTERHAUS_METRICS_PORT: '192.0.2.7:9464',
    LETTERHAUS_ACME: 'on',
    LETTERHAUS_ACME_DIRECTORY_URL: 'https://ca.acme.com/directory',
    LETTERHAUS_ACME_EMAIL: 'ops@acme.com',
    LETTERHAUS_ACME_HTTP_PORT: '[::1]:8080',
    LETTERHAUS_ACME_CHALLENGE: 'DNS-01',
    LETTERHAUS_ACME_EAB_KEY_ID: 'kid-1',
    LETTERHAUS_ACME_EAB_HMAC_KEY: 'a-key-in-base64url',
    LETTERHAUS_API_TLS_CERT: '/etc/tls/api.pem',
    LETTERHAUS_API_TLS_KEY: '/etc/tls/api-key.pem',
    LETTERHAUS_METRICS_TOKEN: 'm'.repeat(16),
    DATABASE_URL: 'postgres://app:pw@db.internal/letterhaus',
    LETTERHAUS_DATA_DIR: '/srv/mail',
    HOST: '::',
    PORT: '0',
    LETTERHAUS_TRUSTED_PROXIES: '10.0.0.0/8, 2001:db8::1',
    LETTERHAUS_LOG: 'DEBUG',
    LETTERHAUS_LOG_RECIPIENTS: 'Full',
    LETTERHAUS_PUBLIC_URL: 'https://mail.acme.com/',
    LETTERHAUS_TRACKING_URL: 'https://links.acme.com/',
    LETTERHAUS_HOSTNAME: 'MX1.acme.com',
    LETTERHAUS_SECRET_KEY: 'k'.repeat(32),
    LETTERHAUS_RELAY_URL: 'smtps://us%40er:p%2Fw@relay.acme.com',
    LETTERHAUS_SOURCE_IPS: '192.0.2.7, 2001:db8::7=Six.acme.com,127.0.0.9=mx9.acme.com',
    LETTERHAUS_RETRY_WAITS: '30s, 5m,4h',
    LETTERHAUS_DNS_SERVERS: '9.9.9.9,127.0.0.1:5353,[::1]:53',
    LETTERHAUS_DNS_PROVIDER: 'Route53',
    LETTERHAUS_DNS_API_URL: 'https://dns.acme.com/api/',
    LETTERHAUS_DNS_TRUST_AD: 'yes',
    LETTERHAUS_MX_PORT: '2525',
    LETTERHAUS_MTA_STS_PORT: '8443',
    LETTERHAUS_SMTP_TIMEOUT_S: '20',
    LETTERHAUS_DOMAINS_INTERVAL_S: '2',
    LETTERHAUS_REPUTATION_INTERVAL_S: '5',
    LETTERHAUS_SMTP_HOST: '192.0.2.7',
    LETTERHAUS_SMTP_CLIENT_TIMEOUT_S: '10',
    LETTERHAUS_UNMATCHED_MB: '64',
    LETTERHAUS_DATABASE_MAX_MB: '20000',
    LETTERHAUS_STORAGE_MAX_MB: '5000',
    LETTERHAUS_SUPPRESSIONS_MAX: '9000',
    LETTERHAUS_INBOUND_PORT: '25',
    LETTERHAUS_SUBMISSION_PORTS: '587, 465, 2465/tls',
    LETTERHAUS_SUBMISSION_SHOW_CLIENT: '1',
    LETTERHAUS_TLS_CERT: '/etc/tls/cert.pem',
    LETTERHAUS_TLS_KEY: '/etc/tls/key.pem',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_LIMIT_SENDING: '5000/3600',
    LETTERHAUS_LIMIT_RECIPIENTS: '9000/3600',
    LETTERHAUS_LIMIT_VERIFICATION: '1/1',
    LETTERHAUS_LIMIT_DOMAINS: '2/60',
    LETTERHAUS_LIMIT_WEBHOOKS: '3/60',
    LETTERHAUS_OPERATOR_WEBHOOK: 'https://alerts.acme.com/mail',
    LETTERHAUS_OPERATOR_WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    LETTERHAUS_OPERATOR_ADDRESS: 'ops@acme.com',
    LETTERHAUS_OPERATOR_FROM: 'Mail <alerts@acme.com>',
    LETTERHAUS_DOCTOR: 'off',
    LETTERHAUS_SPAMHAUS_KEY: 'ABCDEFGHIJ0123456789abcdef',
    LETTERHAUS_DOMAINS_MAX: '5000',
    LETTERHAUS_LIMIT_AUTH: '7/60',
    LETTERHAUS_ACCEPT_DATABASE_DURABILITY: 'true',
    LETTERHAUS_MIGRATE_WITHOUT_BACKUP: '1',
    LETTERHAUS_RETENTION_CONTENT: '36h',
    LETTERHAUS_RETENTION_METADATA: '400d',
    LETTERHAUS_BACKUP_TO: '/srv/backups',
    LETTERHAUS_BACKUP_EVERY: '30m',
    LETTERHAUS_BACKUP_KEEP: '7',
    LETTERHAUS_BACKUP_PASSPHRASE: 'correct horse battery',
    LETTERHAUS_BACKUP_RECIPIENT: RECIPIENT,
    LETTERHAUS_BACKUP_S3_ENDPOINT: 'http://store.internal:9000/',
    AWS_ENDPOINT_URL_S3: 'http://other.internal:9000',
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'AKIA',
    AWS_SECRET_ACCESS_KEY: 'its secret',
    AWS_SESSION_TOKEN: 'a session',
    LETTERHAUS_POINT_IN_TIME_BASE_EVERY: '12h',
    LETTERHAUS_POINT_IN_TIME_KEEP: '30d',
    LETTERHAUS_FAILPOINTS: 'smtp_after_dot=kill@3',
  });
  assert.ok(variables.length > 0);
  assert.deepEqual(config, {
    databaseUrl: 'postgres://app:pw@db.internal/letterhaus',
    databaseBytesMax: 20_000 * 1024 ** 2,
    storageBytesMax: 5_000 * 1024 ** 2,
    dataDir: '/srv/mail',
    host: '::',
    port: 0,
    isPortConfigured: true,
    trustedProxies: ['10.0.0.0/8', '2001:db8::1'],
    logLevel: 'debug',
    logRecipients: 'full',
    publicUrl: 'https://mail.acme.com',
    trackingUrl: 'https://links.acme.com',
    metrics: { host: '192.0.2.7', port: 9464 },
    acme: {
      directoryUrl: 'https://ca.acme.com/directory',
      email: 'ops@acme.com',
      externalAccount: { keyId: 'kid-1', macKey: 'a-key-in-base64url' },
      challenge: 'dns-01',
      http: { host: '::1', port: 8080 },
    },
    oidc: null,
    apiTlsFiles: { cert: '/etc/tls/api.pem', key: '/etc/tls/api-key.pem' },
    metricsToken: 'm'.repeat(16),
    operatorWebhook: {
      url: 'https://alerts.acme.com/mail',
      secret: `whsec_${Buffer.alloc(32, 7).toString('base64')}`,
    },
    operatorAddress: 'ops@acme.com',
    operatorFrom: { name: 'Mail', address: 'alerts@acme.com' },
    isDoctorDaily: false,
    spamhausKey: 'abcdefghij0123456789abcdef',
    hostname: 'mx1.acme.com',
    isHostnameConfigured: true,
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
    shaping: DEFAULT_SHAPING,
    retryWaitsMs: [30_000, 300_000, 14_400_000],
    dnsProvider: {
      name: 'route53',
      token: 'its secret',
      accessKeyId: 'AKIA',
      sessionToken: 'a session',
      baseUrl: 'https://dns.acme.com/api',
    },
    dnsServers: ['9.9.9.9:53', '127.0.0.1:5353', '[::1]:53'],
    dnsTrustAd: true,
    mxPort: 2525,
    mtaStsPort: 8443,
    smtpTimeoutMs: 20_000,
    domainsEveryMs: 2_000,
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
    suppressionsMax: 9000,
    acceptDatabaseDurability: true,
    migrateWithoutBackup: true,
    retention: { contentH: 36, metadataH: 9600 },
    backup: {
      to: '/srv/backups',
      everyMs: 1_800_000,
      keep: 7,
      passphrase: 'correct horse battery',
      recipients: [RECIPIENT],
      pointInTime: { to: null, everyMs: 12 * 3600_000, keepMs: 30 * DAY_MS },
      s3: {
        endpoint: 'http://store.internal:9000',
        region: 'eu-central-1',
        accessKeyId: 'AKIA',
        secretAccessKey: 'its secret',
        sessionToken: 'a session',
      },
    },
    failpoints: [{ name: 'smtp_after_dot', action: 'kill', hit: 3 }],
  });
});

test('retention is 45 and 90 days by default, unlimited with off, and content is not kept longer than its email', () => {
  const kept = (env: Env) => configOf(env).retention;
  assert.deepEqual(kept({ LETTERHAUS_RETENTION_METADATA: 'off' }), {
    contentH: 45 * 24,
    metadataH: null,
  });
  assert.deepEqual(kept({ LETTERHAUS_RETENTION_METADATA: '30d' }), {
    contentH: 720,
    metadataH: 720,
  });
  const longer = { LETTERHAUS_RETENTION_CONTENT: 'off', LETTERHAUS_RETENTION_METADATA: '90d' };
  assert.deepEqual(problemsOf(longer), [
    'LETTERHAUS_RETENTION_CONTENT: content cannot be kept for longer than the email it belongs to; ' +
      'raise LETTERHAUS_RETENTION_METADATA too.',
  ]);
});

test('an archive of WAL is for the embedded database, in a place of its own, and has the sealed key', () => {
  const to = { LETTERHAUS_POINT_IN_TIME: '/srv/wal' };
  const sealed = { ...to, LETTERHAUS_BACKUP_RECIPIENT: RECIPIENT };
  assert.equal(configOf(sealed).backup.pointInTime.to, '/srv/wal');
  const [unsealed] = problemsOf(to);
  assert.match(unsealed ?? '', /^LETTERHAUS_POINT_IN_TIME: .* set LETTERHAUS_BACKUP_PASSPHRASE or/);
  const [external] = problemsOf({ ...sealed, DATABASE_URL: 'postgres://u@db.example/x' });
  assert.match(external ?? '', /^LETTERHAUS_POINT_IN_TIME: it is for the embedded database/);
  const [shared] = problemsOf({ ...sealed, LETTERHAUS_BACKUP_TO: '/srv/wal/' });
  assert.match(shared ?? '', /^LETTERHAUS_POINT_IN_TIME: use another folder/);

  const credentials = { AWS_ACCESS_KEY_ID: 'AKIA', AWS_SECRET_ACCESS_KEY: 'its secret' };
  const bucket = { ...sealed, ...credentials, LETTERHAUS_POINT_IN_TIME: 's3://acme/wal' };
  assert.equal(configOf(bucket).backup.pointInTime.to, 's3://acme/wal');
  const [same] = problemsOf({ ...bucket, LETTERHAUS_BACKUP_TO: 's3://acme/wal/' });
  assert.match(same ?? '', /^LETTERHAUS_POINT_IN_TIME: use another folder or prefix/);
  const [keyless] = problemsOf({ ...bucket, AWS_ACCESS_KEY_ID: '' });
  assert.match(keyless ?? '', /^LETTERHAUS_POINT_IN_TIME: a bucket needs AWS_ACCESS_KEY_ID/);
  const [misspelt] = problemsOf({ ...bucket, LETTERHAUS_POINT_IN_TIME: 's3:/acme/wal' });
  assert.match(misspelt ?? '', /^LETTERHAUS_POINT_IN_TIME: .* write s3:\/\/bucket\/prefix\//);
});

test('SMTP ports are off by default', () => {
  const ports = (env: Env) => {
    const { inboundPort, submissionPorts } = configOf(env);
    return [inboundPort, submissionPorts.map(({ port, implicitTls }) => [port, implicitTls])];
  };
  const off = { LETTERHAUS_INBOUND_PORT: 'off', LETTERHAUS_SUBMISSION_PORTS: 'Off' };
  assert.deepEqual(ports(off), [null, []]);
  const any = { LETTERHAUS_INBOUND_PORT: '0', LETTERHAUS_SUBMISSION_PORTS: '0,0/tls' };
  assert.deepEqual(ports(any), [0, [[0, false], [0, true]]]); // prettier-ignore
});

test('a relay without a port gets the default port of its protocol', () => {
  const port = (url: string) => configOf({ LETTERHAUS_RELAY_URL: url }).relay?.port;
  assert.equal(port('smtp://relay.acme.com'), 25);
  assert.equal(port('smtp://ada:secret@relay.acme.com'), 587);
  assert.equal(port('smtps://relay.acme.com'), 465);
  assert.equal(port('smtp://relay.acme.com:2525'), 2525);
});

test('all problems are reported at once, one line each', () => {
  assert.deepEqual(
    problemsOf({
      PORT: '70000',
      LETTERHAUS_LIMIT_AUTH: '20',
      LETTERHAUS_DNS_SERVERS: '9.9.9.9,dns',
    }),
    [
      'PORT: "70000" is not understood; write a number from 1 to 65535, or 0 for any.',
      'LETTERHAUS_DNS_SERVERS: "dns" is not understood; write servers separated by commas, such as ' +
        '9.9.9.9 or 127.0.0.1:5353 or [::1]:53.',
      'LETTERHAUS_LIMIT_AUTH: "20" is not understood; write requests per seconds, such as 100/60 (at ' +
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
  { LETTERHAUS_TRUSTED_PROXIES: '10.0.0.0/33' },
  { LETTERHAUS_TRUSTED_PROXIES: 'proxy.local' },
  { LETTERHAUS_LOG: 'loud' },
  { LETTERHAUS_PUBLIC_URL: 'mail.acme.com' },
  { LETTERHAUS_TRACKING_URL: 'links.acme.com' },
  { LETTERHAUS_HOSTNAME: '192.0.2.7' },
  { LETTERHAUS_HOSTNAME: 'mx_1..acme.com' },
  { LETTERHAUS_SECRET_KEY: 'short' },
  { LETTERHAUS_RELAY_URL: 'http://relay.acme.com' },
  { LETTERHAUS_RELAY_URL: 'smtp://user@relay.acme.com' },
  { LETTERHAUS_RELAY_URL: 'smtp://us%zz:pw@relay.acme.com' },
  { LETTERHAUS_SOURCE_IPS: '198.51.100.1' },
  { LETTERHAUS_SOURCE_IPS: '192.0.2.7=mx_1..acme.com' },
  { LETTERHAUS_SOURCE_IPS: '192.0.2.7=a.test=b.test' },
  { LETTERHAUS_SOURCE_IPS: '192.0.2.7=a.test,192.0.2.7=b.test' },
  { LETTERHAUS_RETRY_WAITS: '5m,4' },
  { LETTERHAUS_DNS_TRUST_AD: 'maybe' },
  { LETTERHAUS_MX_PORT: '0' },
  { LETTERHAUS_SMTP_TIMEOUT_S: '0.5' },
  { LETTERHAUS_SMTP_TIMEOUT_S: '601' },
  { LETTERHAUS_GUARD_INTERVAL_S: '0' },
  { LETTERHAUS_REPUTATION_INTERVAL_S: '0' },
  { LETTERHAUS_DOMAINS_INTERVAL_S: '0' },
  { LETTERHAUS_DOMAINS_MAX: '0' },
  { LETTERHAUS_DOMAINS_MAX: '1000001' },
  { LETTERHAUS_INBOUND_PORT: 'x' },
  { LETTERHAUS_SUBMISSION_PORTS: '587/ssl' },
  { LETTERHAUS_SUBMISSION_PORTS: '587,587/tls' },
  { LETTERHAUS_SUBMISSION_PORTS: '25', LETTERHAUS_INBOUND_PORT: '25' },
  { LETTERHAUS_SMTP_HOST: 'http://x' },
  { LETTERHAUS_SMTP_CLIENT_TIMEOUT_S: '0' },
  { LETTERHAUS_UNMATCHED_MB: '31' },
  { LETTERHAUS_DATABASE_MAX_MB: '20 GB' },
  { LETTERHAUS_STORAGE_MAX_MB: '5 GB' },
  { LETTERHAUS_TLS_CERT: '', LETTERHAUS_TLS_KEY: '/etc/tls/key.pem' },
  { LETTERHAUS_TLS_KEY: '', LETTERHAUS_TLS_CERT: '/etc/tls/cert.pem' },
  { LETTERHAUS_LIMIT_SENDING: '0/60' },
  { LETTERHAUS_BACKUP_S3_ENDPOINT: 's3.example.com' },
  { LETTERHAUS_BACKUP_S3_ENDPOINT: 'https://key:secret@s3.example.com' },
  { LETTERHAUS_RETENTION_CONTENT: '45' },
  { LETTERHAUS_RETENTION_CONTENT: '23h' },
  { LETTERHAUS_RETENTION_METADATA: '0d' },
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
    LETTERHAUS_RELAY_URL: 'user:hunter2@relay',
    LETTERHAUS_SECRET_KEY: 'hunter2',
  });
  assert.equal(problems.length, 3);
  assert.ok(!problems.join().includes('hunter2'));
});

test('a misspelt variable is reported with the likely name', () => {
  assert.deepEqual(
    problemsOf({
      LETTERHAUS_MXPORT: '25',
      LETTERHAUS_PORT: '80',
      LETTERHAUS_WORKERS: '2',
      LETTERHAUS_XYZZY_PLUGH_FROTZ_QUUX: '1',
    }),
    [
      'LETTERHAUS_MXPORT: there is no such variable; did you mean LETTERHAUS_MX_PORT? Rename or unset it.',
      'LETTERHAUS_PORT: there is no such variable; did you mean PORT? Rename or unset it.',
      'LETTERHAUS_WORKERS: there is no such variable; unset it.',
      'LETTERHAUS_XYZZY_PLUGH_FROTZ_QUUX: there is no such variable; unset it.',
    ],
  );
});

test('variables that Kubernetes sets for a service named letterhaus are ignored', () => {
  configOf({
    LETTERHAUS_SERVICE_HOST: '10.0.0.1',
    LETTERHAUS_SERVICE_PORT: '3000',
    LETTERHAUS_PORT: 'tcp://10.0.0.1:3000',
    LETTERHAUS_PORT_3000_TCP_PROTO: 'tcp',
  });
});

test('metrics are served on the loopback address by default', () => {
  const metrics = (text: string) => configOf({ LETTERHAUS_METRICS_PORT: text }).metrics;
  assert.deepEqual(metrics('9464'), { host: '127.0.0.1', port: 9464 });
  assert.deepEqual(metrics('10.0.0.5:9464'), { host: '10.0.0.5', port: 9464 });
  assert.deepEqual(metrics('[::1]:0'), { host: '::1', port: 0 });
  assert.equal(metrics('off'), null);
  for (const text of ['70000', 'x', ':1', 'host:1', '::1:5']) {
    assert.equal(problemsOf({ LETTERHAUS_METRICS_PORT: text }).length, 1, text);
  }
  for (const token of ['short', 'with spaces in between']) {
    const [problem = ''] = problemsOf({ LETTERHAUS_METRICS_TOKEN: token });
    assert.match(problem, /^LETTERHAUS_METRICS_TOKEN: its value is not understood/);
    assert.ok(!problem.includes(token));
  }
});
