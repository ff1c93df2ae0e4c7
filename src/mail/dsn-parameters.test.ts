/** The DSN parameters that the next server gets. net/smtp/server/server-dsn.test.ts tests their grammar. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAddress } from './address.ts';
import { dsnParametersFor, type RcptDsn, readOrcpt } from './dsn-parameters.ts';

const JO = parseAddress('jo@receiver.test')!;

test('the next server gets the parameters of the sender, within the lengths that servers accept', () => {
  const umlauts = readOrcpt(`utf-8;${'ö'.repeat(120)}@x.test`, { smtpUtf8: true });
  assert.ok(typeof umlauts === 'string' && umlauts.length > 500);
  const orcpt = 'rfc822;old+2Bnews@receiver.test';
  const cases: [RcptDsn, takesReports: boolean, rcpt: string][] = [
    [{ notify: ['SUCCESS', 'DELAY'], orcpt }, true, ` NOTIFY=SUCCESS,DELAY ORCPT=${orcpt}`],
    [{ notify: [], orcpt: null }, true, ' NOTIFY=NEVER'],
    [{ notify: null, orcpt }, true, ` ORCPT=${orcpt}`],
    // Without an inbound port for reports, only NOTIFY=NEVER is passed on.
    [{ notify: ['SUCCESS'], orcpt: null }, false, ''],
    [{ notify: [], orcpt: null }, false, ' NOTIFY=NEVER'],
    [{ notify: ['FAILURE'], orcpt: umlauts }, true, ' NOTIFY=FAILURE'],
  ];
  for (const [asked, takesReports, rcpt] of cases) {
    const recipients = { [JO]: asked };
    const dsn = { kind: 'request', sender: null, ret: 'HDRS', envid: 'a+2Bb', recipients } as const;
    const dsnParameters = dsnParametersFor(dsn, JO, { takesReports });
    assert.deepEqual(dsnParameters, { mail: ' RET=HDRS ENVID=a+2Bb', rcpt });
  }
});
