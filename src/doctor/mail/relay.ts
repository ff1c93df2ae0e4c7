/** Checks the relay: connects and logs in, as a delivery does. Sends no message. */
import { lookup } from 'node:dns/promises';
import { leastTlsFor } from '../../delivery/route/tls-rules.ts';
import { connectSmtp } from '../../net/smtp/client.ts';
import { timeoutsWithin } from '../../net/smtp/client-session.ts';
import { type Finding, green, red, unknown } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const PHASE_WITHIN_MS = 10_000;

export const RELAY: Check = {
  id: 'relay',
  title: 'Relay',
  async run({ config }) {
    const { relay, hostname: heloName } = config;
    if (relay === null) return [green('Mail is delivered directly, without a relay.')];
    const { host, port, implicitTls, auth } = relay;
    const subject = `${host}:${port}`;
    const address = await lookup(host).then(
      (found) => found.address,
      () => null,
    );
    if (address === null) {
      return [
        red(`The relay ${host} has no address.`, {
          subject,
          meaning: 'All mail waits.',
          remedy: 'Correct the host in LETTERHAUS_RELAY_URL, or its address record.',
          command: `getent ahosts ${host}`,
        }),
      ];
    }
    const result = await connectSmtp({
      host,
      address,
      port,
      implicitTls,
      heloName,
      tls: leastTlsFor(relay),
      timeouts: timeoutsWithin(PHASE_WITHIN_MS),
      ...(auth !== null && { auth }),
    });
    if (result.kind === 'ready') {
      await result.connection.close();
      const how = auth === null ? 'answers; no log-in is configured' : 'accepts the log-in';
      return [green(`The relay ${subject} ${how}.`, subject)];
    }
    return [describe(result, subject)];
  },
};

type Refusal = Exclude<Awaited<ReturnType<typeof connectSmtp>>, { kind: 'ready' }>;

function describe(result: Refusal, subject: string): Finding {
  const meaning = 'All mail waits.';
  if (result.kind === 'failed') {
    return red(`The relay ${subject} cannot be used: ${result.message}`, {
      subject,
      meaning,
      remedy:
        result.cause === 'tls'
          ? 'Write the host name in LETTERHAUS_RELAY_URL as the certificate has it, or correct the certificate.'
          : 'Check host and port in LETTERHAUS_RELAY_URL, and the firewall between.',
      command: `nc -vz -w 5 ${subject.replace(/:(\d+)$/, ' $1')}`,
    });
  }
  const { code, enhancedCode, message } = result.reply;
  const reply = [code, enhancedCode, message.split('\n')[0]].filter(Boolean).join(' ');
  if (result.phase !== 'auth') {
    const remedy = 'Follow the reply: the relay may permit only known addresses.';
    return red(`The relay ${subject} replies ${reply}.`, { subject, meaning, remedy });
  }
  if (code < 500) {
    const found = `The relay ${subject} cannot check the log-in now: ${reply}.`;
    return unknown(found, { subject, remedy: 'Run the check again in a few minutes.' });
  }
  return red(`The relay ${subject} refuses the log-in: ${reply}.`, {
    subject,
    meaning,
    remedy:
      'Correct user and password in LETTERHAUS_RELAY_URL, with special characters percent-encoded, and restart the service.',
  });
}
