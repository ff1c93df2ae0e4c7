/** Orders of certificates while something else fails: the clock, the database, the DNS provider. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { TOKEN_VARIABLES } from '../../src/net/dns-provider/providers.ts';
import { readChain } from '../../src/net/tls/chain.ts';
import { startAcmeServer } from '../support/acme-server.ts';
import {
  PROVIDER_TOKEN,
  startDnsProviderServer,
  type ZoneRecord,
} from '../support/dns-provider-server.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { migratedDatabase, proxiedDatabase } from '../support/postgres.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const NAME = 'api.acme.test';
const TIMEOUT_MS = 120_000;

const dns = await startFakeDns({ [NAME]: { A: ['127.0.0.1'] } });
after(() => dns[Symbol.asyncDispose]());
const provider = await startDnsProviderServer('cloudflare', { 'acme.test': [] });
after(() => provider[Symbol.asyncDispose]());
const acme = await startAcmeServer({ challengePort: 1 });
after(() => acme[Symbol.asyncDispose]());

const isChallenge = ({ name }: ZoneRecord) => name === `_acme-challenge.${NAME}`;
const textsOf = (records: readonly ZoneRecord[]): string[] =>
  records.filter(isChallenge).map(({ value }) => value.replaceAll('"', ''));
acme.lookUpTxt = () => textsOf(provider.records('acme.test'));
/** DNS answers what the provider has. */
const publish = () => {
  dns.set(`_acme-challenge.${NAME}`, 'TXT', textsOf(provider.records('acme.test')));
};
provider.onChange = publish;

const ENV = {
  LETTERHAUS_ACME: 'on',
  LETTERHAUS_ACME_CHALLENGE: 'dns-01',
  LETTERHAUS_ACME_DIRECTORY_URL: acme.directoryUrl,
  LETTERHAUS_DNS_PROVIDER: 'cloudflare',
  LETTERHAUS_DNS_API_URL: provider.access.baseUrl ?? '',
  [TOKEN_VARIABLES.cloudflare]: PROVIDER_TOKEN,
  LETTERHAUS_PUBLIC_URL: `https://${NAME}`,
  LETTERHAUS_SUBMISSION_PORTS: 'off',
};

const serialOf = ({ dataDir }: Service): string => {
  const [{ serialNumber, issuer }] = readChain(
    readFileSync(join(dataDir, 'secrets', `acme-${NAME}.pem`), 'utf8'),
  );
  return issuer.includes('Test authority') ? serialNumber : '';
};
const waitUntilIssued = (service: Service, before = '') =>
  waitFor(() => !['', before].includes(serialOf(service)), {
    what: 'the certificate',
    timeoutMs: TIMEOUT_MS,
  });
const rowOf = async (service: Service) => {
  const [row] = await service.sql(
    `select failures, problem, remedy, extract(epoch from due_at - app_now())::int8 as "dueS",
            extract(epoch from issued_at - app_now())::int8 as "issuedS" from acme_certificates`,
  );
  return row as {
    failures: number;
    problem: string | null;
    remedy: string | null;
    dueS: number;
    issuedS: number;
  };
};

test('by DNS-01 a certificate is issued without port 80, and the record is removed', async () => {
  await using service = await startService({ dns, env: ENV });
  await waitUntilIssued(service);
  const isRemoved = () => !provider.records('acme.test').some(isChallenge);
  await waitFor(isRemoved, { what: 'the record to be removed', timeoutMs: TIMEOUT_MS });
  assert.doesNotMatch(service.logs, new RegExp(PROVIDER_TOKEN));
  assert.equal(acme.validations, 1);

  // The authority asks for an early renewal, as before it revokes a certificate.
  acme.renewalWindow = { start: '2026-01-01T00:00:00Z', end: '2026-01-02T00:00:00Z' };
  await service.sql(`update acme_certificates set issued_at = app_now() - interval '3 days',
                            renewal_look_at = null`);
  const before = serialOf(service);
  await waitUntilIssued(service, before);
  assert.equal(acme.replaced.length, 1);
  // The answer for the new certificate is the same, and it rests for 36 hours.
  const isNoted = async () => Math.abs((await rowOf(service)).dueS - 36 * 3_600) < 600;
  await waitFor(isNoted, { what: 'the time of the next order', timeoutMs: TIMEOUT_MS });
  acme.renewalWindow = null;
});

test('while the DNS provider refuses the token, nothing is validated, and the operator reads what to do', async () => {
  const { validations } = acme;
  const env = { ...ENV, [TOKEN_VARIABLES.cloudflare]: 'a-wrong-token' };
  await using service = await startService({ dns, env });
  const isReported = async () => (await rowOf(service)).problem !== null;
  await waitFor(isReported, { what: 'the problem', timeoutMs: TIMEOUT_MS });
  const { problem, remedy } = await rowOf(service);
  assert.match(problem ?? '', /^No certificate for api\.acme\.test was issued: .*token/i);
  assert.match(remedy ?? '', /^Check LETTERHAUS_DNS_PROVIDER and its token/);
  assert.equal(acme.validations, validations);
});

test('a clock that is a year ahead does not order again and again', async () => {
  await using database = await migratedDatabase();
  const env = { ...ENV, LETTERHAUS_SECRET_KEY: 'k'.repeat(32) };
  {
    await using earlier = await startService({
      dns,
      database,
      env: { ...env, LETTERHAUS_ACME: 'off' },
    });
    await earlier.sql(`update clock set skew = interval '400 days'`);
  }
  const { length } = acme.orders;
  await using service = await startService({ dns, database, env });
  await waitUntilIssued(service);
  const isComplete = async () => (await rowOf(service)).failures === 0;
  await waitFor(isComplete, { what: 'the order to be complete', timeoutMs: TIMEOUT_MS });
  const { dueS } = await rowOf(service);
  assert.ok(dueS > 35 * 3_600 && dueS <= 36 * 3_600, `due in ${dueS} s`);
  assert.equal(acme.orders.length, length + 1);
});

test('the database goes away in the middle of an order: the order is continued when it is back', async () => {
  await using database = await proxiedDatabase();
  acme.fail('/finalize', 'later');
  const { length } = acme.orders;
  const { validations } = acme;
  await using service = await startService({ dns, database, env: ENV });
  const isFinalized = () =>
    acme.orders.length > length && acme.orders.at(-1)?.status === 'processing';
  await waitFor(isFinalized, { what: 'the order', timeoutMs: TIMEOUT_MS });
  await database.proxy.refuse();
  acme.downloads = 0;
  acme.release();
  const isDownloaded = () => acme.downloads > 0;
  await waitFor(isDownloaded, { what: 'the certificate to be sent', timeoutMs: TIMEOUT_MS });
  assert.equal(serialOf(service), '', 'it could not be stored');
  await database.proxy.heal();
  const makeDue = async () => {
    await service.sql('update acme_certificates set due_at = app_now() where failures > 0');
    return serialOf(service) !== '';
  };
  await waitFor(makeDue, { what: 'the certificate', timeoutMs: TIMEOUT_MS, everyMs: 1_000 });
  assert.deepEqual([acme.orders.length, acme.validations], [length + 1, validations + 1]);
});
