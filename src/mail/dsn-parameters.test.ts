/** What of the parameters of DSN goes on to the next server. The grammar: net/smtp/server-dsn.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAddress } from './address.ts';
import { parametersFor, type RcptDsn, readOrcpt } from './dsn-parameters.ts';

const JO = parseAddress('jo@receiver.test')!;

test('the next server gets what the sender asked for, within the lengths that servers take', () => {
  const umlauts = readOrcpt(`utf-8;${'ö'.repeat(120)}@x.test`, { smtpUtf8: true });
  assert.ok(typeof umlauts === 'string' && umlauts.length > 500);
  const orcpt = 'rfc822;old+2Bnews@receiver.test';
  const cases: [RcptDsn, takesReports: boolean, rcpt: string][] = [
    [{ notify: ['SUCCESS', 'DELAY'], orcpt }, true, ` NOTIFY=SUCCESS,DELAY ORCPT=${orcpt}`],
    [{ notify: [], orcpt: null }, true, ' NOTIFY=NEVER'],
    [{ notify: null, orcpt }, true, ` ORCPT=${orcpt}`],
    // Without a port for reports only a wish for silence goes on.
    [{ notify: ['SUCCESS'], orcpt: null }, false, ''],
    [{ notify: [], orcpt: null }, false, ' NOTIFY=NEVER'],
    [{ notify: ['FAILURE'], orcpt: umlauts }, true, ' NOTIFY=FAILURE'],
  ];
  for (const [asked, takesReports, rcpt] of cases) {
    const recipients = { [JO]: asked };
    const dsn = { kind: 'request', sender: null, ret: 'HDRS', envid: 'a+2Bb', recipients } as const;
    const written = parametersFor(dsn, JO, { takesReports });
    assert.deepEqual(written, { mail: ' RET=HDRS ENVID=a+2Bb', rcpt });
  }
});
