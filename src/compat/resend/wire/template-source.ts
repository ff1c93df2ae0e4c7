/** Sources of templates as Resend writes them, `{{{NAME}}}`, and in Liquid, `{{ NAME }}`; pure. */
import { hash } from 'node:crypto';

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,63}';
const TRIPLE = new RegExp(`\\{\\{\\{ *(${NAME}) *\\}\\}\\}`, 'g');
const PLAIN = new RegExp(`\\{\\{ (${NAME}) \\}\\}(?!\\})`, 'g');

/**
 * In Liquid. Values are escaped in html, as everywhere in this service; what is not a variable of this
 * form is Liquid already.
 */
export function fromResend(source: string): string {
  return source.replaceAll(TRIPLE, '{{ $1 }}');
}

/** The inverse; constructs that only Liquid has stay as they are. */
export function toResend(source: string): string {
  return source.replaceAll(PLAIN, '{{{$1}}}');
}

/** For clients that expect an id of a version: the same for the same version. */
export function versionId(templateId: string, version: number): string {
  const digest = hash('sha256', `${templateId} ${version}`, 'hex');
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/, '$1-$2-$3-$4-$5');
}
