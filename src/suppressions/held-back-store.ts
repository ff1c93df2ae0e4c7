/**
 * SQL: whether an entry of the suppression list holds back mail. An entry of test mail to an address of the
 * simulator (core/simulator.ts) is listed and holds nothing back.
 */
import { RESEND_DOMAIN, RESEND_NAMES, SIMULATOR_DOMAIN } from '../core/simulator.ts';

/** @param row the alias of a row of `suppressions` and a dot; empty: it has none */
export const isSimulated = (row: string): string => `(${row}environment = 'test'
         and (${row}address_key like '%@${SIMULATOR_DOMAIN}'
              or ${row}address_key ~ '^(${RESEND_NAMES.join('|')})([+].*)?@${RESEND_DOMAIN}$'))`;

/**
 * Of an entry `s`. Only an entry that was found is compared, so that mail to everybody else costs nothing more.
 * @param now the time
 */
export const holdsBack = (now: string): string =>
  `(s.expires_at is null or s.expires_at > ${now}) and not ${isSimulated('s.')}`;
