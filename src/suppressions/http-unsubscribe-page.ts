/**
 * The page of an unsubscribe link: one question, one button. It has no script, external resource or cookie, and no
 * referrer that would disclose the link.
 */
import { domainOf, localPartOf } from '../mail/address.ts';
import type { Unsubscriber } from '../mail/links/unsubscribe-link.ts';
import { escapeHtml as escape } from '../http/dashboard/html-page.ts';
import type { RecipientPage } from '../http/dashboard/recipient-page.ts';

const UNSUBSCRIBE = { name: 'List-Unsubscribe', value: 'One-Click' };

export function confirmationPage(unsubscriber: Unsubscriber): RecipientPage {
  return {
    status: 200,
    title: 'Unsubscribe?',
    text: [
      `${senderHtml(unsubscriber)} will send no more email to ${recipientHtml(unsubscriber)}.`,
    ],
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE },
  };
}

/** @param canUndo true when only such a link suppressed the address */
export function unsubscribedPage(
  unsubscriber: Unsubscriber,
  { canUndo }: { canUndo: boolean },
): RecipientPage {
  return {
    status: 200,
    title: 'You are unsubscribed',
    text: [`${senderHtml(unsubscriber)} sends no more email to ${recipientHtml(unsubscriber)}.`],
    ...(canUndo && {
      button: { label: 'Undo', name: 'action', value: 'undo', isQuiet: true as const },
    }),
  };
}

export function resubscribedPage(unsubscriber: Unsubscriber): RecipientPage {
  return {
    status: 200,
    title: 'You are subscribed again',
    text: [`${recipientHtml(unsubscriber)} can get email from ${senderHtml(unsubscriber)} again.`],
    button: { label: 'Unsubscribe', ...UNSUBSCRIBE, isQuiet: true },
  };
}

export function unchangedPage(unsubscriber: Unsubscriber): RecipientPage {
  return {
    status: 200,
    title: 'Nothing was changed',
    text: [
      `${senderHtml(unsubscriber)} does not send email to ${recipientHtml(unsubscriber)} for another reason. ` +
        'If you want it again, please ask the sender.',
    ],
  };
}

/** The undo limit is exceeded, so the address stays unsubscribed. */
export function stillUnsubscribedPage(unsubscriber: Unsubscriber): RecipientPage {
  return {
    status: 429,
    title: 'Still unsubscribed',
    text: [
      `This was changed many times today, so ${senderHtml(unsubscriber)} sends no more email to ` +
        `${recipientHtml(unsubscriber)}. You can change it again tomorrow.`,
    ],
  };
}

export const TOO_LARGE_PAGE: RecipientPage = {
  status: 413,
  title: 'Request too large',
  text: ['Please open the link of the email and press the button there.'],
};

export const UNAVAILABLE_PAGE: RecipientPage = {
  status: 503,
  title: 'Please try again in a moment',
  text: [
    'Your request cannot be saved right now. Please go back and press the button again; repeating it is safe.',
  ],
};

function senderHtml({ fromDomain }: Unsubscriber): string {
  return `<strong>${escape(fromDomain)}</strong>`;
}

/** Returns `j•••@example.com`: the owner recognises it, and nobody else who has the link can read it. */
function recipientHtml({ address }: Unsubscriber): string {
  const [first = ''] = localPartOf(address);
  return `<strong><bdi>${escape(first)}•••@${escape(domainOf(address))}</bdi></strong>`;
}
