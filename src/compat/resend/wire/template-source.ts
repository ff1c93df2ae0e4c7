/** Converts template sources between Resend's `{{{NAME}}}` and Liquid's `{{ NAME }}`. */
import { hash } from 'node:crypto';

const NAME = '[A-Za-z_][A-Za-z0-9_]{0,63}';
const TRIPLE = new RegExp(`\\{\\{\\{ *(${NAME}) *\\}\\}\\}`, 'g');
const PLAIN = new RegExp(`\\{\\{ (${NAME}) \\}\\}(?!\\})`, 'g');

/**
 * Returns Liquid. As everywhere in this service, values are escaped in html. Everything except variables in this form
 * is Liquid already.
 */
export function fromResend(source: string): string {
  return source.replaceAll(TRIPLE, '{{ $1 }}');
}

/** The inverse of fromResend. Constructs that only Liquid has do not change. */
export function toResend(source: string): string {
  return source.replaceAll(PLAIN, '{{{$1}}}');
}

export function versionId(templateId: string, version: number): string {
  const digest = hash('sha256', `${templateId} ${version}`, 'hex');
  return digest.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/, '$1-$2-$3-$4-$5');
}
