/** Reads reports about DMARC as receivers send them, and refuses what is none or too large. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { zipSync } from 'fflate';
import { dmarcMessage, dmarcXml } from '../../../test/support/dmarc-reports.ts';
import { readDmarcReport } from './dmarc-report.ts';

const NOW_MS = Date.UTC(2026, 10, 27);
const XML = dmarcXml({ domain: 'Acme.com', endsAtMs: NOW_MS });
const read = (body: Buffer, type = 'application/gzip') =>
  readDmarcReport(dmarcMessage(body, type), NOW_MS);

test('a report is read from gzip, from ZIP and as plain XML', () => {
  const zip = Buffer.from(zipSync({ 'mx.example!acme.com!1!2.xml': Buffer.from(XML) }));
  for (const body of [gzipSync(XML), zip, Buffer.from(XML), Buffer.from(`\ufeff${XML}`)]) {
    const report = read(body);
    assert.deepEqual(report, {
      organization: 'mx.example',
      reportId: '1',
      domain: 'acme.com',
      policy: 'none',
      beginsAt: new Date(NOW_MS - 86_400_000),
      endsAt: new Date(NOW_MS),
      sources: [
        { ip: '203.0.113.9', passed: 0, failed: 3 },
        { ip: '192.0.2.1', passed: 42, failed: 0 },
        { ip: '2001:db8::1', passed: 5, failed: 0 },
      ],
    });
  }
});

test('several rows of one address count together, and either DKIM or SPF is enough', () => {
  const rows = [
    { ip: '192.0.2.1', count: 2, dkim: 'pass', spf: 'fail' },
    { ip: '192.0.2.1', count: 3, dkim: 'fail', spf: 'pass' },
    { ip: '192.0.2.1', count: 1, dkim: 'fail', spf: 'fail' },
    { ip: 'nonsense', count: 9, dkim: 'pass', spf: 'pass' },
  ];
  const report = read(gzipSync(dmarcXml({ domain: 'acme.com', endsAtMs: NOW_MS, rows })));
  assert.deepEqual(report?.sources, [{ ip: '192.0.2.1', passed: 5, failed: 1 }]);
});

test('a bomb, damage, entities and other messages are no report', () => {
  const bomb = gzipSync(Buffer.concat([Buffer.from(XML), Buffer.alloc(50_000_000, ' ')]));
  const zipBomb = zipSync({ 'a.xml': new Uint8Array(50_000_000) });
  const entities = `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>${XML.replace('mx.example', '&b;')}`;
  for (const body of [bomb, zipBomb, gzipSync(XML).subarray(0, 90), 'PK\u0003\u0004', '<html>']) {
    assert.equal(read(Buffer.from(body)), null);
  }
  assert.notEqual(read(Buffer.from(entities))?.organization, 'aaaaaaaa');
  assert.equal(readDmarcReport(Buffer.from('Subject: hello\r\n\r\nHello'), NOW_MS), null);
});

test('a report about the future, about a year, or about no domain is refused', () => {
  const wrong = [
    { domain: 'acme.com', endsAtMs: NOW_MS + 3 * 86_400_000 },
    { domain: 'acme.com', endsAtMs: NOW_MS, beginsAtMs: NOW_MS - 365 * 86_400_000 },
    { domain: 'not a domain', endsAtMs: NOW_MS },
    { domain: 'acme.com', endsAtMs: NOW_MS, policy: 'maybe' },
  ];
  for (const report of wrong) assert.equal(read(gzipSync(dmarcXml(report))), null);
});
