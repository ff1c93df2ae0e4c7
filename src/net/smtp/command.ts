/**
 * The one place where text becomes SMTP commands. An address that could end its own brackets or
 * its line would become a command of its own (reference: GHSA-c7w3-x93f-qmm8, GHSA-vvjj-xcjg-gr5g),
 * so nothing reaches the socket that has not passed here; what does not pass is a bug and throws.
 */

const ASCII_PATH = /^[^\0-\x1f\x7f-\uffff<>]*$/;
const UTF8_PATH = /^[^\0-\x1f\x7f-\x9f\u2028\u2029<>]*$/;
const ARGUMENT = /^[!-~]+( [!-~]+)*$/;

/** Whether an address can stand between `<` and `>` of MAIL FROM and RCPT TO. */
export function isWritablePath(address: string, smtpUtf8: boolean): boolean {
  if (ASCII_PATH.test(address)) return true;
  return smtpUtf8 && UTF8_PATH.test(address) && address.isWellFormed();
}

/** `MAIL FROM:<address>` or `RCPT TO:<address>` without the line end. */
export function pathCommand(
  verb: 'MAIL FROM' | 'RCPT TO',
  address: string,
  smtpUtf8: boolean,
): string {
  if (!isWritablePath(address, smtpUtf8)) {
    throw new Error(`An address that cannot be written in SMTP: ${JSON.stringify(address)}`);
  }
  return `${verb}:<${address}>`;
}

/** A command with printable ASCII arguments without the line end: `EHLO mail.acme.com`. */
export function plainCommand(verb: string, argument: string): string {
  if (!ARGUMENT.test(argument)) {
    throw new Error(`An argument that cannot be written in SMTP: ${JSON.stringify(argument)}`);
  }
  return `${verb} ${argument}`;
}
