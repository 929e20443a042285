/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the calibration: see control_calibrate.h
 */
#include "core/control_calibrate.h"

#include <stdio.h>

#include "core/internal.h"

static void take_channels(const Detshare__ChannelCalibration *from, struct dsc_channel_calibration *ret)
{
        ret->channels = from->channels;
        ret->be = from->be;
        for (size_t i = 0; i < from->n_cells && i < DSC_CHANNEL_CELLS; i++) {
                const Detshare__ChannelCell *cell = from->cells[i];
                if (cell->ls_load >= DSC_LOADS || cell->be_load > DSC_LOAD_NONE)
                        continue;
                ret->cells[ret->n++] = (struct dsc_channel_cell){
                        .ls_load = cell->ls_load,
                        .be_load = cell->be_load,
                        .be_channels = cell->be_channels,
                        .be_blocks = cell->be_blocks,
                        .ls_permille = cell->ls_permille,
                        .be_permille = cell->be_permille,
                };
        }
}

static void take_calibration(const Detshare__CalibrationReply *r, struct dsc_calibration *ret)
{
        *ret = (struct dsc_calibration){.simulated = r->simulated, .in_memory = r->in_memory};
        snprintf(ret->gpu, sizeof(ret->gpu), "%s", r->gpu);
        if (r->channels)
                take_channels(r->channels, &ret->channels);
        for (size_t i = 0; i < r->n_cells && i < DSC_CALIBRATION_CELLS; i++) {
                const Detshare__CalibrationCell *cell = r->cells[i];
                if (cell->ls_load >= DSC_LOADS || cell->be_load >= DSC_LOADS)
                        continue;
                ret->cells[ret->n++] = (struct dsc_calibration_cell){
                        .ls_load = cell->ls_load,
                        .be_load = cell->be_load,
                        .be_sms = cell->be_sms,
                        .be_blocks = cell->be_blocks,
                        .ls_permille = cell->ls_permille,
                        .be_permille = cell->be_permille,
                };
        }
}

int dsc_control_calibration(dsc_session *s, struct dsc_calibration *ret)
{
        Detshare__GetCalibration get = DETSHARE__GET_CALIBRATION__INIT;
        Detshare__Request request = DSC__REQUEST(GET_CALIBRATION, get_calibration, &get);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_GET_CALIBRATION, &answer);
        if (r)
                return r;
        take_calibration(answer.reply->get_calibration, ret);
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_control_calibration_put(dsc_session *s, const struct dsc_calibration_cell *cells, size_t n)
{
        Detshare__CalibrationCell to[DSC_CALIBRATION_CELLS], *pointers[DSC_CALIBRATION_CELLS];
        Detshare__PutCalibration put = DETSHARE__PUT_CALIBRATION__INIT;
        for (size_t i = 0; i < n && i < DSC_CALIBRATION_CELLS; i++) {
                detshare__calibration_cell__init(&to[i]);
                to[i].ls_load = cells[i].ls_load;
                to[i].be_load = cells[i].be_load;
                to[i].be_sms = cells[i].be_sms;
                to[i].be_blocks = cells[i].be_blocks;
                to[i].ls_permille = cells[i].ls_permille;
                to[i].be_permille = cells[i].be_permille;
                pointers[put.n_cells++] = &to[i];
        }
        put.cells = pointers;
        Detshare__Request request = DSC__REQUEST(PUT_CALIBRATION, put_calibration, &put);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_channels_put(dsc_session *s, const struct dsc_channel_calibration *channels)
{
        Detshare__ChannelCell to[DSC_CHANNEL_CELLS], *pointers[DSC_CHANNEL_CELLS];
        Detshare__ChannelCalibration put_channels = DETSHARE__CHANNEL_CALIBRATION__INIT;
        Detshare__PutCalibration put = DETSHARE__PUT_CALIBRATION__INIT;
        for (size_t i = 0; i < channels->n && i < DSC_CHANNEL_CELLS; i++) {
                const struct dsc_channel_cell *from = &channels->cells[i];
                detshare__channel_cell__init(&to[i]);
                to[i].ls_load = from->ls_load;
                to[i].be_load = from->be_load;
                to[i].be_channels = from->be_channels;
                to[i].be_blocks = from->be_blocks;
                to[i].ls_permille = from->ls_permille;
                to[i].be_permille = from->be_permille;
                pointers[put_channels.n_cells++] = &to[i];
        }
        put_channels.channels = channels->channels;
        put_channels.be = channels->be;
        put_channels.cells = pointers;
        put.channels = &put_channels;
        Detshare__Request request = DSC__REQUEST(PUT_CALIBRATION, put_calibration, &put);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_calibration_forget(dsc_session *s)
{
        Detshare__ForgetCalibration forget = DETSHARE__FORGET_CALIBRATION__INIT;
        Detshare__Request request = DSC__REQUEST(FORGET_CALIBRATION, forget_calibration, &forget);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_control_calibration_begin(dsc_session *s, char *const *params, size_t n_params)
{
        Detshare__ProfileRun run = DETSHARE__PROFILE_RUN__INIT;
        run.calibrate = true;
        run.params = (char **)params;
        run.n_params = n_params;
        Detshare__Request request = DSC__REQUEST(PROFILE_RUN, profile_run, &run);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}
