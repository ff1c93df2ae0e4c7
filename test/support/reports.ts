/** Bounces and complaints that servers send about an email, and their delivery in a real SMTP dialogue. */
import { Dialogue } from './smtp-dialogue.ts';

export type ReportOptions = {
  recipient?: string;
  action?: 'failed' | 'delayed' | 'delivered';
  status?: string;
  diagnostic?: string;
  /** A text that distinguishes two reports. */
  mark?: string;
};

const ORIGINAL_HEADER = 'From: Acme <hello@acme.example>\r\nSubject: Hello\r\n';

/** Returns a report of RFC 3464. */
export function statusReport({
  recipient = 'jo@receiver.test',
  action = 'failed',
  status = '5.1.1',
  diagnostic = '550 5.1.1 No such user here',
  mark = '',
}: ReportOptions = {}): string {
  return [
    'From: MAILER-DAEMON@mx.receiver.test',
    'Subject: Delivery report',
    `X-Mark: ${mark}`,
    'Auto-Submitted: auto-replied',
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    '',
    'This is about your email.',
    '--b',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns; mx.receiver.test',
    '',
    `Final-Recipient: rfc822; ${recipient}`,
    `Action: ${action}`,
    `Status: ${status}`,
    `Diagnostic-Code: smtp; ${diagnostic}`,
    '',
    '--b',
    'Content-Type: text/rfc822-headers',
    '',
    ORIGINAL_HEADER,
    '--b--',
    '',
  ].join('\r\n');
}

/** Returns a report of RFC 5965. @param returnPath the return path in the original */
export function feedbackReport(returnPath: string, type = 'abuse'): string {
  return [
    'From: feedback@provider.test',
    'Subject: Complaint',
    'Content-Type: multipart/report; report-type=feedback-report; boundary=b',
    '',
    '--b',
    'Content-Type: message/feedback-report',
    '',
    `Feedback-Type: ${type}`,
    'Version: 1',
    'User-Agent: Provider/1',
    '',
    '--b',
    'Content-Type: message/rfc822',
    '',
    `Return-Path: <${returnPath}>`,
    ORIGINAL_HEADER,
    '--b--',
    '',
  ].join('\r\n');
}

/** Delivers a message. @returns the last reply: to a refused RCPT, else to the message */
export async function deliverReport(
  port: number,
  { to, message, from = '' }: { to: string; message: string; from?: string },
): Promise<string> {
  await using client = await Dialogue.greeted(port);
  const sender = (await client.ask(`MAIL FROM:<${from}>`)) ?? '';
  if (!sender.startsWith('250')) return sender;
  const taken = (await client.ask(`RCPT TO:<${to}>`)) ?? '';
  if (!taken.startsWith('250')) return taken;
  await client.ask('DATA');
  client.send(`${message.replace(/^\./gm, '..')}\r\n.\r\n`);
  return (await client.readReply()) ?? 'hung up';
}
