import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { useApi } from '../../../api/scope.ts';

/** The email of a page, which has its subject as title. */
export function useEmail(id: string) {
  const api = useApi();
  const email = useQuery(api.query('getEmail', { path: { id } }));
  const subject = email.data?.subject;
  useEffect(() => {
    if (subject !== undefined) document.title = `${subject} · Letterhaus`;
  }, [subject]);
  return email;
}
