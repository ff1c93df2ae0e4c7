/** Logs when no mail server answers this machine (delivery/outage/uplink.ts), and when one answers again. */
import type { Logger } from 'pino';
import type { UplinkChange } from './uplink.ts';

export function logUplink(log: Logger, { isDown, failedForMs }: UplinkChange): void {
  const logFields = { no_answer_s: Math.round(failedForMs / 1_000) };
  if (!isDown) {
    log.info(logFields, 'a mail server answers again; mail that waited for it is due now');
    return;
  }
  log.warn(
    logFields,
    'no mail server anywhere answers this machine, so the uplink counts as down: check the network, ' +
      'its DNS servers, and whether outgoing connections to port 25 are blocked; mail is kept and retried meanwhile',
  );
}
