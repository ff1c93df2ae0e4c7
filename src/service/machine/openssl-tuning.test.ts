/** Shows which RSA implementation of OpenSSL is chosen. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, verify } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { DAY_MS } from '../../lib/units.ts';
import {
  chosen,
  findOpensslTuning,
  measureBoth,
  measureInTurns,
  medianOf,
  recheckOpensslTuning,
  storeOpensslTuning,
  tuneOpenssl,
  WITHOUT_ADX,
} from './openssl-tuning.ts';

test('AVX2 is selected where it is clearly faster, and nowhere else', () => {
  assert.deepEqual(chosen({ withAdxUs: 500, withoutAdxUs: 350 }), WITHOUT_ADX);
  assert.deepEqual(chosen({ withAdxUs: 500, withoutAdxUs: 480 }), {});
  assert.deepEqual(chosen({ withAdxUs: 350, withoutAdxUs: 500 }), {});
  assert.deepEqual(chosen({ withAdxUs: 500, withoutAdxUs: null }), {});
});

test("the operator's OPENSSL_ia32cap is kept, and other processors are not tuned", async () => {
  const env = { ...process.env, OPENSSL_ia32cap: '~0x200000200000000' };
  assert.deepEqual(await tuneOpenssl({ arch: 'x64', env }), {});
  assert.deepEqual(await tuneOpenssl({ arch: 'arm64', env: process.env }), {});
});

test('both implementations are measured on this machine, one in a process of its own', async () => {
  const { withAdxUs, withoutAdxUs } = await measureBoth(process.env);
  assert.ok(withAdxUs > 0);
  assert.ok(withoutAdxUs !== null && withoutAdxUs > 0);
});

test('the default is kept when the other implementation cannot be measured', async () => {
  const env = { ...process.env, NODE_OPTIONS: '--no-such-option' };
  assert.deepEqual(await tuneOpenssl({ arch: 'x64', env }), {});
});

test('a later start on the same processor takes the choice without measuring', () => {
  const dataDir = temporaryFolder();
  const here = { arch: 'x64', env: {} };
  assert.equal(findOpensslTuning(dataDir, here), null, 'the first start measures');
  storeOpensslTuning(dataDir, { tuning: WITHOUT_ADX, checkedAtMs: null }, here);
  assert.deepEqual(findOpensslTuning(dataDir, here), WITHOUT_ADX);
  storeOpensslTuning(dataDir, { tuning: {}, checkedAtMs: null }, here);
  assert.deepEqual(findOpensslTuning(dataDir, here), {});
});

test('a choice for another processor, Node or OpenSSL is measured again, as is a damaged one', () => {
  const dataDir = temporaryFolder();
  const here = { arch: 'x64', env: {} };
  storeOpensslTuning(dataDir, { tuning: WITHOUT_ADX, checkedAtMs: null }, here);
  const file = join(dataDir, 'openssl.json');
  const stored = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const others = [
    { ...stored, processor: 'another' },
    { ...stored, openssl: '0.9.8' },
    { ...stored, node: '20.0.0' },
    { ...stored, checkedAtMs: 'today' },
    { ...stored, withoutAdx: 'yes' },
    { ...stored, more: 1 },
    null,
    7,
  ];
  for (const other of others) {
    writeFileSync(file, JSON.stringify(other));
    assert.equal(findOpensslTuning(dataDir, here), null, JSON.stringify(other));
  }
  writeFileSync(file, '{"processor"');
  assert.equal(findOpensslTuning(dataDir, here), null);
});

test("the operator's choice needs no measurement and is not stored", () => {
  const dataDir = temporaryFolder();
  const chosenByOperator = { arch: 'x64', env: { OPENSSL_ia32cap: ':~0x0' } };
  assert.deepEqual(findOpensslTuning(dataDir, chosenByOperator), {});
  storeOpensslTuning(dataDir, { tuning: {}, checkedAtMs: null }, chosenByOperator);
  assert.equal(existsSync(join(dataDir, 'openssl.json')), false);
});

test('a choice that cannot be stored does not end the start', () => {
  storeOpensslTuning(
    join(temporaryFolder(), 'missing'),
    { tuning: {}, checkedAtMs: null },
    { arch: 'x64', env: {} },
  );
});

test('a wrong choice of a busy moment is corrected by the measurement in the background', async () => {
  const dataDir = temporaryFolder();
  const here = { arch: 'x64', env: {} };
  storeOpensslTuning(dataDir, { tuning: {}, checkedAtMs: null }, here);
  const measured: string[] = [];
  const recheck = (nowMs: number, withoutAdxUs: number | null) =>
    recheckOpensslTuning(dataDir, {
      nowMs,
      surroundings: here,
      measure: async () => {
        measured.push(`day ${nowMs / DAY_MS}`);
        return withoutAdxUs === null ? null : { withAdxUs: 500, withoutAdxUs };
      },
    });
  assert.equal(await recheck(1 * DAY_MS, null), false, 'a failed measurement changes nothing');
  assert.deepEqual(findOpensslTuning(dataDir, here), {});
  assert.equal(await recheck(1 * DAY_MS, 350), true);
  assert.deepEqual(findOpensslTuning(dataDir, here), WITHOUT_ADX);
  assert.equal(await recheck(30 * DAY_MS, 700), false, 'it is not old yet');
  assert.equal(await recheck(31 * DAY_MS, 700), true);
  assert.deepEqual(findOpensslTuning(dataDir, here), {});
  assert.equal(await recheck(-70 * DAY_MS, 350), true, 'the clock was wrong before');
  assert.deepEqual(measured, ['day 1', 'day 1', 'day 31', 'day -70']);
});

test('two disturbed rounds of five do not decide', () => {
  const quiet = { withAdxUs: 500, withoutAdxUs: 350 };
  const disturbed = { withAdxUs: 500, withoutAdxUs: 2_000 };
  const rounds = [disturbed, quiet, disturbed, quiet, quiet];
  assert.deepEqual(chosen(medianOf(rounds)), WITHOUT_ADX);
});

test('the background measures both implementations in processes of their own', async () => {
  const times = await measureInTurns(process.env);
  assert.ok(times !== null && times.withAdxUs > 0 && times.withoutAdxUs! > 0);
  assert.equal(await measureInTurns({ ...process.env, NODE_OPTIONS: '--no-such-option' }), null);
});

test('signatures are the same either way', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
  const script = `
    const { sign } = require('node:crypto');
    const signed = sign('sha256', Buffer.from('the letter'), process.env.PEM);
    process.stdout.write(signed.toString('base64'));`;
  const signatureWith = (way: NodeJS.ProcessEnv): string =>
    execFileSync(process.execPath, ['-e', script], {
      env: { ...process.env, ...way, PEM: pem },
      encoding: 'utf8',
    });
  const signature = signatureWith({});
  assert.equal(signatureWith(WITHOUT_ADX), signature);
  const data = Buffer.from('the letter');
  assert.ok(verify('sha256', data, publicKey, Buffer.from(signature, 'base64')));
});
